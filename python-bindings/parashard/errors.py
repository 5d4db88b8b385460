"""The exceptions of the package. Each message says what happened, and what to do."""


class Error(Exception):
    """An error of Parashard."""


class ExportFailed(Error):
    """torch.export cannot export the model, or the archive cannot be written."""


class CompileError(Error):
    """ps-compile refused the model or the plan.

    diagnostics: the messages of ps-compile, with the lines of the model.
    command: the command line, which can be repeated in a shell.
    """

    def __init__(self, diagnostics, command):
        super().__init__(f"{diagnostics}\ncommand: {command}")
        self.diagnostics = diagnostics
        self.command = command


class InputError(Error, ValueError):
    """A tensor, a name or an option does not fit the compiled model."""


class RankFailed(Error):
    """A rank or the runtime failed while the program ran. The program can only be closed."""


class Unsupported(Error):
    """The model, the optimizer or the call needs something that Parashard does not have."""
