"""Many recorded cases in one test, which reports every mismatch and not the first."""

import types

import pytest


def each(parameters, by, marked=types.MappingProxyType({})):
    """Return a decorator: run a function on each parameter, a test for each group.

    Args:
      parameters: list of `pytest.param`, each with an id.
      by: function of a parameter's values that returns the name of its group. Slow
        parameters have a group of their own.
      marked: {name of a group: list of marks that it has}.
    """
    groups, marks = {}, {}
    for parameter in parameters:
        name = "-".join([by(*parameter.values), *(m.name for m in parameter.marks)])
        groups.setdefault(name, []).append(parameter)
        marks[name] = [*parameter.marks, *marked.get(name, ())]

    def decorate(check):
        @pytest.mark.parametrize(
            "group", [pytest.param(name, marks=marks[name]) for name in groups]
        )
        def test(group):
            problems = mismatches(check, groups[group])
            if problems:
                count = f"{len(problems)} of {len(groups[group])} cases"
                pytest.fail("\n\n".join([count, *problems]), pytrace=False)

        test.__name__ = test.__qualname__ = check.__name__
        test.__module__, test.__doc__ = check.__module__, check.__doc__
        return test

    return decorate


def mismatches(check, parameters):
    """Return what fails, texts that begin with the id of the parameter."""
    found = []
    for parameter in parameters:
        try:
            check(*parameter.values)
        except Exception as error:
            found.append(f"{parameter.id}: {type(error).__name__}: {error}")
    return found
