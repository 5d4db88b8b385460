"""The exceptions of the package. Each message says what happened, and what to do."""

from __future__ import annotations

import dataclasses
import linecache
import pathlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


class Error(Exception):
    """An error of Parashard."""


class ExportFailed(Error):
    """torch.export cannot export the model, or the archive cannot be written."""


@dataclasses.dataclass(frozen=True)
class Diagnostic:
    """A message of ps-compile or ps-plan.

    severity: "error", "warning", "remark" or "note".
    file, line, column: the position in the model's source; None if it is not known. module: the path of the model's module, such as
        "h.0.attn".
    reproducer: the ps-opt command that repeats a failure of the compiler. notes: further diagnostics, which explain this one.
    """

    severity: str
    text: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    module: str | None = None
    reproducer: str | None = None
    notes: tuple[Diagnostic, ...] = ()

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Diagnostic:
        """Returns the diagnostic of a JSON object of `--messages json`."""
        return cls(**{**values, "notes": tuple(cls.from_values(note) for note in values.get("notes", ()))})

    @property
    def source(self) -> str | None:
        """The text of the model's source line, or None if it is not known."""
        return linecache.getline(self.file, self.line).strip() or None if self.file and self.line else None

    def __str__(self) -> str:
        line = f"{pathlib.Path(self.file).name}:{self.line}" if self.file and self.line else None
        where = f"{self.module} ({line})" if self.module and line else self.module or line
        lines = [f"{where}: " if where else ""]
        lines[0] += f"{self.severity}: {self.text}"
        if self.source:
            lines.append(f"    {self.source}")
        return "\n".join([*lines, *map(str, self.notes)])


class CompileError(Error):
    """ps-compile refused the model or the plan.

    diagnostics: a list of `Diagnostic`: the messages of ps-compile in their order, with the lines of the model.
    command: the command line, which can be repeated in a shell.
    """

    def __init__(self, diagnostics: Sequence[Diagnostic], command: str) -> None:
        super().__init__("\n".join([*map(str, diagnostics), f"command: {command}"]))
        self.diagnostics = diagnostics
        self.command = command


class InputError(Error, ValueError):
    """A tensor, a name or an option does not fit the compiled model."""


class RankFailed(Error):
    """A rank or the runtime failed while the program ran. The program can only be closed."""


class Unsupported(Error):
    """The model, the optimizer or the call needs something that Parashard does not have."""
