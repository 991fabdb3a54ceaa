"""The report of a restore: what happened to each tensor of the file and each variable."""

import dataclasses

_ROWS = {
    "restored": "{} -> {}",
    "converted": "{} -> {} ({})",
    "kept": "{} ({})",
    "missing": "{}",
    "wrong": "{} -> {} ({})",
    "unused": "{}",
}


@dataclasses.dataclass
class RestoreReport:
    """What a restore did with each tensor of a file and each variable.

    Print the report to see all rows. Hyperparameters have the same rows as variables.

    Attributes:
      path: str, the path of the file.
      layout: str, how the file stores the optimizer: a key of `layouts.LAYOUTS`, such as "v2".
        It is "model" for a checkpoint without an optimizer, and "h5" or "keras" for other
        files.
      restored: list of (key in the file, name of the variable).
      converted: list of (key in the file, name of the variable, what changed).
      kept: list of (name of the variable, why) for variables that get no value from the file,
        although nothing is wrong. A restore does not change them, or sets them to their initial
        values.
      missing: list of the names of all other variables that the file lacks.
      wrong: list of (key in the file, name of the variable, what does not fit).
      unused: list of keys in the file that were not used.
      remedy: str, what to do if the optimizer does not fit, or "".
    """

    path: str
    layout: str
    restored: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    converted: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    kept: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    missing: list[str] = dataclasses.field(default_factory=list)
    wrong: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    unused: list[str] = dataclasses.field(default_factory=list)
    remedy: str = ""

    @property
    def complete(self) -> bool:
        """bool, whether `missing` and `wrong` are both empty."""
        return not self.missing and not self.wrong

    def __str__(self) -> str:
        lines = [f"{self.path}: {self.summary()}"]
        for field, form in _ROWS.items():
            rows = [[row] if isinstance(row, str) else row for row in vars(self)[field]]
            if rows:
                lines += [f"{field}:", *(f"  {form.format(*row)}" for row in rows)]
        if self.remedy:
            lines.append(self.remedy)
        return "\n".join(lines)

    def summary(self) -> str:
        """Return one line with the layout of the file and the number of rows in each list."""
        return f"layout {self.layout}: {counts(self) or 'nothing'}"


def counts(report: RestoreReport, refused: bool = False) -> str:
    """Return the number of rows in each list. A refused restore has restored nothing."""
    words = {field: field for field in _ROWS}
    if refused:
        words |= {"restored": "fit", "converted": "fit after a conversion"}
    numbers = [(len(vars(report)[field]), word) for field, word in words.items()]
    return ", ".join(f"{number} {word}" for number, word in numbers if number)
