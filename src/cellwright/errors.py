"""The errors of Cellwright's own machinery. A user's failing code is a value, never one of these.

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
    │   ├── SessionTaken         a person took it over, and has not given it back
    │   ├── QuestionOver         what was asked was answered, or is no longer waited for
    │   ├── NotApproved          a person or a rule said no to something that is asked about first
    │   └── TooManySessions
    ├── KernelError              a kernel cannot be had or does not answer
    │   ├── KernelStartError
    │   ├── KernelGone           it ended before it answered
    │   └── KernelBusy           it runs a cell and was asked something else
    ├── HostError                the process that owns kernels
    │   ├── HostStartError
    │   ├── HostLost             it went away; its kernels went with it
    │   ├── HostUnreachable      it lives and cannot be reached now; its kernels go on
    │   ├── HostPending          it waits for its turn in a queue
    │   ├── UnknownHost          no host has that name
    │   ├── HostCannot           its kind cannot do what was asked
    │   ├── SlurmFailed          a command of SLURM failed, or did not answer in time
    │   ├── ShapeRefused         an allocation cannot be asked for like that
    │   └── HostRefused          it answered a request with a refusal
    ├── SandboxError             something that the isolation refuses, or cannot do
    │   ├── FileRefused          a name in a working directory leads elsewhere or is no plain file
    │   ├── NoSuchFile           there is nothing of that name in the working directory
    │   ├── FileTooLarge         a file is larger than may be read, written or copied at once
    │   ├── FileFailed           the file system refused
    │   ├── FileUnreadable       its content is not what it should be, or too much to be looked at
    │   ├── FileConflict         a file of the project changed since the session began to have its own
    │   ├── PackageRefused       not on the approved list, or not a plain name
    │   ├── PackageFailed        approved, but it could not be resolved or installed
    │   └── NetworkRuleInvalid   an entry of a network list cannot be understood
    ├── PlanError                a plan cannot be made, read or gone on with as asked
    │   ├── UnknownPlan          the session has none
    │   ├── PlanBusy             it is running
    │   └── PlanFileError        a plan file cannot be read; the message has the line
    ├── TemplateError            a template cannot be read, or not be given these parameters
    │   ├── UnknownTemplate
    │   └── TemplateRefused      a gallery, or what it offers, is not what its index or signature says
    ├── ChartError               data cannot be drawn as asked
    │   ├── ChartRefused         the manifest or its data; every message names its field
    │   │   └── NoSuchData       no kernel has the value that is to be drawn
    │   ├── SpecRefused          a spec asks for something that is never fetched, or is no spec
    │   └── DrawingFailed        the process that draws ran out of time or memory, or ended
    ├── FetchError               something on the web cannot be had
    │   ├── FetchRefused         the network policy, or the URL itself; nothing was asked of anybody
    │   └── FetchFailed          it was asked for, and did not come, or not as what it was asked for
    ├── NamedConnectionError     something that is reached by a connection's name
    │   ├── UnknownConnection    the operator named none like this
    │   └── ConnectionFailed     its server, or the broker in between, refused or did not answer
    ├── CalculationError         an expression has no value, or none that is told
    │   ├── ExpressionInvalid    it is not of the calculator's grammar, or names what there is not
    │   ├── CalculationTooLarge  a bound of the calculator stops it
    │   └── UnitsDiffer          quantities whose dimensions do not go together
    ├── PageNotInstalled         the page's libraries are installed on request
    ├── AgentError               the data agent cannot go on
    │   ├── NoModel              no model is configured, or the one that is named is unknown
    │   ├── ModelFailed          a model did not answer, or not with a reply
    │   ├── BudgetInvalid        a budget cannot be understood
    │   ├── BudgetSpent          a run has taken all that it may
    │   ├── UnknownConversation  there is none of that id
    │   ├── ConversationBusy     another run works with it
    │   ├── ConversationUnreadable  a newer version wrote it, or it is damaged
    │   ├── UnknownRun           nor of that one
    │   ├── RunStopped           somebody stopped it
    │   └── NoAgent              what it needs is not installed
    ├── NotLinux                 this system has none of what kernels are confined with
    ├── StorageInUse             another engine owns this storage directory
    └── LimitReached             a limit of the settings stops this work
"""

from __future__ import annotations

from typing import ClassVar

import cellwright

# The root of all errors. What there are stands in the package itself.


class CellwrightError(Exception):
    """Root of every error Cellwright raises on purpose: a stable code, a message, and what to do next."""

    code: ClassVar[str] = "cellwright"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message


class NotLinux(CellwrightError):
    """This system is not Linux; the hint is the line that does in a container what ``command`` would do here."""

    code = "not_linux"

    def __init__(self, command: str = "COMMAND") -> None:
        super().__init__(
            "Cellwright needs Linux: it confines code by namespaces, Landlock and seccomp",
            hint=f"{_in_container(command)}, or work in a dev container or in WSL",
        )


def _in_container(command: str) -> str:
    """What to do instead. The options let sessions be confined as well as in no container (docs/guides/containers.md)."""
    options = " ".join(f"--security-opt {each}=unconfined" for each in ("seccomp", "apparmor", "systempaths"))
    rest = (
        f"--volume cellwright:/data --volume .:/notebooks {options} "
        f"ghcr.io/cellwright/cellwright:{cellwright.__version__}"
    )
    verb = command.partition(" ")[0]
    if verb in ("", "serve", "tutorial", "ui"):  # whose port is reached from outside, and goes on
        opens = "tutorial" if verb == "tutorial" else "ui"
        return (
            f"Run `docker run --detach --init --name cellwright --publish 127.0.0.1:8765:8765 {rest}`, "
            f"then `docker exec cellwright cellwright {opens} --no-open`"
        )
    if verb == "install":  # whose files are out here
        return f"Give the client the command `docker run --rm --init --interactive {rest} mcp`"
    terminal = "" if verb == "mcp" else " --tty"  # the stdin of `mcp` is a client's pipe
    return f"Run `docker run --rm --init --interactive{terminal} {rest} {command}`"


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

    def __init__(self, format: str, error: ImportError, *, extra: str = "export") -> None:
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


class QuestionOver(SessionError):
    """What a cell asked for was answered already, or is no longer waited for."""

    code = "question_over"


class SessionTaken(SessionError):
    """A person has the session; ``by`` is who."""

    code = "session_taken"

    def __init__(self, by: str, session_id: str) -> None:
        super().__init__(
            f"{by} took this session over ({session_id})",
            hint="Reading works. Do not work around it: wait until it is given back, or ask them",
        )
        self.by = by
        self.session_id = session_id


class NotApproved(SessionError):
    """A person, a rule or nobody being there said no to something that the settings have asked about first."""

    code = "not_approved"

    def __init__(self, what: str, why: str, *, hint: str) -> None:
        super().__init__(f"Not approved: to {what}; {why}. Nothing was done", hint=hint)


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


class TemplateError(CellwrightError):
    code = "template"


class UnknownTemplate(TemplateError):
    code = "unknown_template"


class TemplateRefused(TemplateError):
    code = "template_refused"


class FetchError(CellwrightError):
    code = "fetch"


class FetchRefused(FetchError):
    """``setting`` is the one that says so, where one does; ``why`` is the message without the address, for logs."""

    code = "fetch_refused"

    def __init__(
        self, message: str, *, hint: str | None = None, setting: str | None = None, why: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.setting = setting
        self.why = why if why is not None else message


class FetchFailed(FetchError):
    """``status`` is the host's answer, where there was one; ``retry_after_s`` when it wants to be asked again."""

    code = "fetch_failed"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.retry_after_s = retry_after_s


class CalculationError(CellwrightError):
    code = "calculation"


class ExpressionInvalid(CalculationError):
    code = "expression_invalid"


class CalculationTooLarge(CalculationError):
    code = "calculation_too_large"


class UnitsDiffer(CalculationError):
    code = "units_differ"


class StorageInUse(CellwrightError):
    code = "storage_in_use"


class LimitReached(CellwrightError):
    """A limit stops this work; ``setting`` names the limit's setting."""

    code = "limit_reached"

    def __init__(self, message: str, *, setting: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.setting = setting


# What can go wrong in the data agent and between it and models.


class AgentError(CellwrightError):
    code = "agent_failed"


class NoModel(AgentError):
    code = "no_model"


class ModelFailed(AgentError):
    """``again`` says whether the same request may come through later, ``after_s`` when the provider says it would."""

    code = "model_failed"

    def __init__(
        self, message: str, *, hint: str | None = None, again: bool = False, after_s: float | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.again = again
        self.after_s = after_s


class BudgetInvalid(AgentError):
    code = "budget_invalid"


class BudgetSpent(AgentError):
    code = "budget_spent"

    def __init__(self, what: str, *, taken: float, limit: float) -> None:
        told = {
            "money": f"{taken:.4f} of {limit:.4f} US dollars",
            "seconds": f"{taken:.0f} of {limit:.0f} seconds",
        }
        super().__init__(
            f"The budget is spent: {told.get(what, f'{taken:.0f} of {limit:.0f} {what}')}",
            hint="Raise it, or go on from here in the same conversation",
        )
        self.what = what


class UnknownConversation(AgentError):
    code = "unknown_conversation"


class ConversationBusy(AgentError):
    code = "conversation_busy"


class ConversationUnreadable(AgentError):
    """A newer version wrote it, or it is damaged; the message says which, and where."""

    code = "conversation_unreadable"


class UnknownRun(AgentError):
    code = "unknown_run"


class RunStopped(AgentError):
    code = "run_stopped"


class NoAgent(AgentError):
    code = "no_agent"


class PageNotInstalled(CellwrightError):
    code = "page_not_installed"


# What can go wrong with hosts, and on the way to them.


class HostError(CellwrightError):
    code = "host"


class HostStartError(HostError):
    code = "host_start"


class HostLost(HostError):
    code = "host_lost"


class HostUnreachable(HostError):
    """It lives, as far as anybody knows, and cannot be reached now; its kernels go on."""

    code = "host_unreachable"


class HostPending(HostError):
    """It waits for its turn; the message has its place in the queue, the reason and when it is expected."""

    code = "host_pending"


class UnknownHost(HostError):
    code = "unknown_host"


class HostCannot(HostError):
    """What was asked for is not to be had on this kind of host, with the reason."""

    code = "host_cannot"


class SlurmFailed(HostError):
    """A command of SLURM failed; ``refused`` where SLURM answered and said no, rather than not at all."""

    code = "slurm_failed"

    def __init__(self, message: str, *, refused: bool = False, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.refused = refused


class ShapeRefused(HostError):
    code = "shape_refused"


class HostRefused(HostError):
    """The host's refusal, with the code of the error that caused it there."""

    code = "host_refused"

    def __init__(self, message: str, *, cause: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.cause = cause


# What the isolation refuses, or cannot do.


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


class FileUnreadable(SandboxError):
    """A file's content is not what it should be, or too much to be looked at; the message says which."""

    code = "file_unreadable"


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


# Databases, stores and services that the operator named.


class NamedConnectionError(CellwrightError):
    code = "connection"


class UnknownConnection(NamedConnectionError):
    code = "unknown_connection"


class ConnectionFailed(NamedConnectionError):
    code = "connection_failed"
