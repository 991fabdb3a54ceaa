"""What a restore did, or would do, key by key."""

import dataclasses


@dataclasses.dataclass
class Report:
    """What became of each tensor of a file and of each variable.

    `print(report)` shows it whole.

    Attributes:
      path: str, the file.
      layout: str, how it was written: a key of `layouts.LAYOUTS`.
      restored: list of (key in the file, name of the variable).
      converted: list of (key in the file, name of the variable, how).
      kept: list of (name of the variable, why) of variables that such a file does not
        store, so that they keep their values.
      missing: list of names of variables that the file should have but lacks.
      wrong: list of (key in the file, name of the variable, what does not fit).
      unused: list of keys in the file that were not used.
    """

    path: str
    layout: str
    restored: list = dataclasses.field(default_factory=list)
    converted: list = dataclasses.field(default_factory=list)
    kept: list = dataclasses.field(default_factory=list)
    missing: list = dataclasses.field(default_factory=list)
    wrong: list = dataclasses.field(default_factory=list)
    unused: list = dataclasses.field(default_factory=list)

    @property
    def complete(self):
        """Whether nothing is missing or wrong, a bool."""
        return not self.missing and not self.wrong

    def __str__(self):
        lines = [f"{self.path}: {self.summary()}"]
        for title, rows in (
            ("restored", [f"{key} -> {name}" for key, name in self.restored]),
            (
                "converted",
                [f"{key} -> {name} ({how})" for key, name, how in self.converted],
            ),
            ("kept", [f"{name} ({why})" for name, why in self.kept]),
            ("missing", self.missing),
            (
                "wrong",
                [f"{key} -> {name} ({what})" for key, name, what in self.wrong],
            ),
            ("unused", self.unused),
        ):
            if rows:
                lines += [f"{title}:", *(f"  {row}" for row in rows)]
        return "\n".join(lines)

    def summary(self):
        """Return the counts in one line, a str."""
        counts = ", ".join(
            f"{len(getattr(self, name))} {name}"
            for name in ("restored", "converted", "kept", "missing", "wrong", "unused")
            if getattr(self, name)
        )
        return f"layout {self.layout}: {counts or 'nothing'}"
