"""What a restore did, or would do, key by key."""

import dataclasses

# Field of a `Report` -> how one of its rows is shown.
_ROWS = {
    "restored": "{} -> {}",
    "converted": "{} -> {} ({})",
    "kept": "{} ({})",
    "missing": "{}",
    "wrong": "{} -> {} ({})",
    "unused": "{}",
}

_SAVE = """\
To keep this as a file of today's Keras, with the restored optimizer:
  model.compile(optimizer)
  model.save("new.keras")"""


@dataclasses.dataclass
class Report:
    """What became of each tensor of a file and of each variable; print it to see all.

    Attributes:
      path: str, the file.
      layout: str, how it was written: "h5", "keras" or a key of `layouts.LAYOUTS`.
      restored: list of (key in the file, name of the variable).
      converted: list of (key in the file, name of the variable, how).
      kept: list of (name of the variable, why) of variables that such a file does not
        store: they keep their values, or are made anew.
      missing: list of names of variables that the file lacks.
      wrong: list of (key in the file, name of the variable, what does not fit).
      unused: list of keys in the file that were not used.
      remedy: str, what to do where an optimizer does not fit, or "".
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
        """Whether nothing is missing or wrong, a bool."""
        return not self.missing and not self.wrong

    def __str__(self) -> str:
        lines = [f"{self.path}: {self.summary()}"]
        for field, form in _ROWS.items():
            rows = [[row] if isinstance(row, str) else row for row in vars(self)[field]]
            if rows:
                lines += [f"{field}:", *(f"  {form.format(*row)}" for row in rows)]
        if self.remedy:
            lines.append(self.remedy)
        if self.complete and self.layout not in ("keras", "keras3"):  # of today
            lines.append(_SAVE)
        return "\n".join(lines)

    def summary(self) -> str:
        """Return the counts in one line, a str."""
        counts = [(len(vars(self)[field]), field) for field in _ROWS]
        shown = ", ".join(f"{count} {field}" for count, field in counts if count)
        return f"layout {self.layout}: {shown or 'nothing'}"
