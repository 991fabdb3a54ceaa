"""After `pytest --gpu`, print a block of text that users can paste into an issue."""

from tests.gpu import LINES

_FORM = ".github/ISSUE_TEMPLATE/gpu.yml"


def pytest_terminal_summary(terminalreporter, config):
    """Print a description of the machine and the outcome of each test."""
    if not config.option.gpu or LINES not in config.stash:
        return
    lines, failed = [*config.stash[LINES]], []
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            name = report.nodeid.partition("::test_")[2]
            recorded = "; ".join(str(value) for _, value in report.user_properties)
            lines.append(f"{name}: {outcome}; {recorded}")
            if report.failed:
                failed.append(name)
                last = report.longreprtext.strip().splitlines()[-15:]
                lines += [f"  | {line}" for line in last]
    lines.append(f"whole: FAILED: {', '.join(failed)}" if failed else "whole: passed")
    terminalreporter.section(f"Please paste this into an issue (its form is {_FORM})")
    terminalreporter.write_line("\n".join(lines))
