"""What can go wrong in Cellwright's own machinery. A user's failing code is a value, never one of these.

::

    CellwrightError
    ├── NotebookError            a document cannot be read, edited or written as asked
    │   ├── NotebookFormatError  the file is not a notebook this version reads
    │   ├── UnknownCell          no cell has that id
    │   ├── StaleEdit            the cell moved on since the edit was based on it
    │   ├── TooManyCells         the notebook is full
    │   ├── MissingExtra         a format needs a library that is installed on request
    │   └── SaveFailed           the file could not be written
    ├── SessionError             a session cannot do what was asked
    │   ├── UnknownSession
    │   ├── UnknownExecution
    │   └── TooManySessions
    ├── KernelError              a kernel cannot be had or does not answer
    │   ├── KernelStartError
    │   ├── KernelGone           it ended before it answered
    │   └── KernelBusy           it runs a cell and was asked something else
    ├── HostError                the process that owns kernels
    │   ├── HostStartError
    │   ├── HostLost             it went away; its kernels went with it
    │   └── HostRefused          it answered a request with a refusal
    ├── SandboxError             something that the isolation refuses, or cannot do
    │   ├── FileRefused          a name in a working directory leads elsewhere or is no plain file
    │   ├── NoSuchFile           there is nothing of that name in the working directory
    │   ├── FileTooLarge         a file is larger than may be read, written or copied at once
    │   ├── FileFailed           the file system refused
    │   ├── FileConflict         a file of the project changed since the session began to have its own
    │   ├── PackageRefused       not on the approved list, or not a plain name
    │   ├── PackageFailed        approved, but it could not be resolved or installed
    │   └── NetworkRuleInvalid   an entry of a network list cannot be understood
    ├── PlanError                a plan cannot be made, read or gone on with as asked
    │   ├── UnknownPlan          the session has none
    │   ├── PlanBusy             it is running
    │   └── PlanFileError        a plan file cannot be read; the message has the line
    ├── ChartError               data cannot be drawn as asked
    │   ├── ChartRefused         the manifest or its data; every message names its field
    │   │   └── NoSuchData       no kernel has the value that is to be drawn
    │   ├── SpecRefused          a spec asks for something that is never fetched, or is no spec
    │   └── DrawingFailed        the process that draws ran out of time or memory, or ended
    ├── StorageInUse             another engine owns this storage directory
    └── LimitReached             a limit of the settings stops this work
"""

from __future__ import annotations

from typing import ClassVar


class CellwrightError(Exception):
    """Root of every error Cellwright raises on purpose: a stable code, a message, and what to do next."""

    code: ClassVar[str] = "cellwright"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message


class NotebookError(CellwrightError):
    code = "notebook"


class NotebookFormatError(NotebookError):
    code = "notebook_format"


class UnknownCell(NotebookError):
    code = "unknown_cell"


class StaleEdit(NotebookError):
    """The cell changed since the version an edit was based on; ``diff`` shows how."""

    code = "stale_edit"

    def __init__(self, message: str, *, diff: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.diff = diff


class TooManyCells(NotebookError):
    code = "too_many_cells"


class MissingExtra(NotebookError):
    """A format whose library, which ``error`` names, comes with an extra."""

    code = "missing_extra"

    def __init__(self, format: str, error: ImportError, *, extra: str = "export") -> None:  # noqa: A002
        super().__init__(
            f"Format {format!r} needs {error.name or 'a library'}, which is not installed",
            hint=f"pip install 'cellwright[{extra}]'",
        )


class SaveFailed(NotebookError):
    code = "save_failed"


class SessionError(CellwrightError):
    code = "session"


class UnknownSession(SessionError):
    code = "unknown_session"


class UnknownExecution(SessionError):
    code = "unknown_execution"


class TooManySessions(SessionError):
    code = "too_many_sessions"


class KernelError(CellwrightError):
    code = "kernel"


class KernelStartError(KernelError):
    code = "kernel_start"


class CheckpointRefused(KernelError):
    """The message is the reason, in words that fit behind "no checkpoint: "."""

    code = "checkpoint_refused"


class UnknownCheckpoint(KernelError):
    code = "unknown_checkpoint"


class KernelGone(KernelError):
    code = "kernel_gone"


class KernelBusy(KernelError):
    code = "kernel_busy"


class HostError(CellwrightError):
    code = "host"


class HostStartError(HostError):
    code = "host_start"


class HostLost(HostError):
    code = "host_lost"


class HostRefused(HostError):
    """The host's refusal, with the code of the error that caused it there."""

    code = "host_refused"

    def __init__(self, message: str, *, cause: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.cause = cause


class SandboxError(CellwrightError):
    code = "sandbox"


class FileRefused(SandboxError):
    code = "file_refused"


class NoSuchFile(SandboxError):
    code = "no_such_file"


class FileTooLarge(SandboxError):
    code = "file_too_large"


class FileFailed(SandboxError):
    code = "file_failed"


class FileConflict(SandboxError):
    """Files of the project are no longer what a session's own were made from; ``paths`` names them."""

    code = "file_conflict"

    def __init__(self, message: str, *, paths: tuple[str, ...], hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.paths = paths


class PackageRefused(SandboxError):
    """A package may not be installed here; ``suggestion`` is the approved one that was probably meant."""

    code = "package_refused"

    def __init__(self, message: str, *, suggestion: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.suggestion = suggestion


class PackageFailed(SandboxError):
    code = "package_failed"


class NetworkRuleInvalid(SandboxError):
    code = "network_rule_invalid"


class PlanError(CellwrightError):
    code = "plan"


class UnknownPlan(PlanError):
    code = "unknown_plan"


class PlanBusy(PlanError):
    code = "plan_busy"


class PlanFileError(PlanError):
    code = "plan_file"


class ChartError(CellwrightError):
    code = "chart"


class ChartRefused(ChartError):
    """Data cannot be drawn as asked; ``problems`` has each reason, with the field that it is about before it."""

    code = "chart_refused"

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class NoSuchData(ChartRefused):
    """No kernel has the value that is to be drawn."""

    code = "no_such_data"


class SpecRefused(ChartError):
    code = "spec_refused"


class DrawingFailed(ChartError):
    code = "drawing_failed"


class StorageInUse(CellwrightError):
    code = "storage_in_use"


class LimitReached(CellwrightError):
    """A limit stops this work; ``setting`` names the limit's setting."""

    code = "limit_reached"

    def __init__(self, message: str, *, setting: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.setting = setting
