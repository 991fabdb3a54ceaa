"""Match the variables of a file with those of a model."""

import collections

from tf_lso.checkpoints import names
from tf_lso.checkpoints.errors import CheckpointError


def match(source, targets, mapping=None):
    """Return {index in `source.variables`: Target} for all variables with a match.

    A variable is found by its path in the model (the kernel of the second layer), or by
    its name and the name of its layer. If both find all variables, but not the same
    ones, only the user knows which is right, and says so by `mapping`: names in the file
    and names in the model, of layers or variables.
    """
    mapped = _mapped(source, targets, mapping or {})
    taken = {id(target) for target in mapped.values()}
    rest = [i for i in range(len(source.variables)) if i not in mapped]
    free = [t for t in targets.targets if id(t) not in taken]
    by_way = _unique({i: _by_way(source.variables[i], targets) for i in rest}, taken)
    by_name = _by_name(source, rest, free)
    complete = [
        found
        for found in (by_way, by_name)
        if len(found) == len(rest) and _fits(source, found)
    ]
    if len(complete) == 2 and by_way != by_name and not mapping:
        index = next(i for i in rest if by_way[i] is not by_name[i])
        raise CheckpointError(
            f"{source.path}: the key {source.variables[index].entry.key} "
            f"({source.variables[index].entry.name}) belongs to {by_way[index].name} by "
            f"its place in the model, and to {by_name[index].name} by its name. Say "
            "which: mapping={name in the file: name in the model}, of layers or "
            "variables."
        )
    if complete:
        return {**mapped, **complete[0]}
    used = {id(target) for target in by_way.values()}
    names_left = {i: t for i, t in by_name.items() if i not in by_way}
    return {**mapped, **by_way, **_unique(names_left, taken | used)}


def _unique(found, taken):
    """Return the items of {index: Target or None} with a target of their own."""
    claims = collections.Counter(id(target) for target in found.values())
    return {
        index: target
        for index, target in found.items()
        if target is not None and claims[id(target)] == 1 and id(target) not in taken
    }


def _by_way(variable, targets):
    found = (targets.at(path) for path in variable.paths if path)
    return next((target for target in found if target is not None), None)


def _short(name):
    """Return the names of the layer and the variable, without outer models."""
    return tuple(names.plain(name).split("/")[-2:])


def _by_name(source, rest, free):
    ours, theirs = {}, {}
    for target in free:
        ours.setdefault(_short(target.name), []).append(target)
    for index in rest:
        theirs.setdefault(_short(source.variables[index].entry.name), []).append(index)
    return {
        indices[0]: ours[name][0]
        for name, indices in theirs.items()
        if len(indices) == 1 and len(ours.get(name, ())) == 1
    }


def _fits(source, found):
    return all(
        source.variables[index].entry.shape == target.shape
        for index, target in found.items()
    )


def _mapped(source, targets, mapping):
    found, used = {}, set()
    for index, variable in enumerate(source.variables):
        keys = {name: _key_in(name, mapping) for name in _names(variable)}
        name, key = next(((n, k) for n, k in keys.items() if k), (None, None))
        if key is None:
            continue
        below = f"/{name}/".split(f"/{key}/", 1)[1].rstrip("/")
        wanted = f"{mapping[key]}/{below}" if below else mapping[key]
        found[index] = targets.named(wanted)
        if found[index] is None:
            raise CheckpointError(
                f"'mapping' sends {name!r} of {source.path} to {wanted!r}, but the model "
                f"has only: {', '.join(t.name for t in targets.targets)}."
            )
        used.add(key)
    unknown = [key for key in mapping if key not in used]
    if unknown:
        raise CheckpointError(
            f"'mapping' names {unknown[0]!r}, but {source.path} has only: "
            f"{', '.join(_names(v)[0] for v in source.variables)}."
        )
    return found


def _names(variable):
    """Return what users may call a variable of a file: its name and its paths."""
    ways = ["/".join(path) for path in variable.paths]
    return [name for name in (names.plain(variable.entry.name), *ways) if name]


def _key_in(name, mapping):
    """Return the longest key of `mapping` that is in a name, None if none is."""
    keys = [key for key in mapping if f"/{key}/" in f"/{name}/"]
    return max(keys, key=len, default=None)
