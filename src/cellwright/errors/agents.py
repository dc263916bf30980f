"""What can go wrong in the data agent and between it and models."""

from __future__ import annotations

from cellwright.errors.base import CellwrightError

__all__ = [
    "AgentError",
    "BudgetInvalid",
    "BudgetSpent",
    "ConversationBusy",
    "ConversationUnreadable",
    "ModelFailed",
    "NoAgent",
    "NoModel",
    "RunStopped",
    "UnknownConversation",
    "UnknownRun",
]


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
            hint="Raise it with --budget, or go on from here in the same conversation",
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
