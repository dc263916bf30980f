"""What goes wrong with a model, in words: what happened, whether to ask again, and what to do next. Pure.

No message holds a key: what a provider says about one is left out, and the keys in use are taken out of the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from pydantic_ai import exceptions as failing
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart

from cellwright.agent.models.providers import every_provider
from cellwright.agent.models.requests import Unanswered, usage_of
from cellwright.agent.models.table import ModelRow
from cellwright.errors import CellwrightError, ModelFailed

__all__ = ["failure_of", "flaw_of", "without"]

_SHOWN = 300
_OTHER = "name another model"
_PASSING = frozenset({408, 409, 425, 429})
_SERVER_ERROR = 500
_BROKE_OFF = ("broke off in the middle of its reply", f"Ask again, or {_OTHER}", True)

# Errors of the library, in the order in which they are looked for: what happened, what to do next, asking again helps.
_Kinds: TypeAlias = type[Exception] | tuple[type[Exception], ...]
_MEANINGS: tuple[tuple[_Kinds, str, str, bool], ...] = (
    (failing.ModelQuotaExceededError, "has no credit left for this key", "Add some, or ", False),
    (failing.ModelRateLimitError, "is asked too often", "Wait, or ", True),
    (
        failing.ModelContextWindowExceededError,
        "cannot read so much at once: its limit is about {limit} tokens",
        "Begin a new conversation, or ",
        False,
    ),
    (failing.ModelNotFoundError, "is not there{said}", "Look at its name and address, or ", False),
    (
        (failing.ModelTimeoutError, failing.ModelRequestTimeout, TimeoutError),
        "did not answer in time",
        "Raise model_timeout_s, or ",
        True,
    ),
    (
        (failing.ModelConnectionError, ConnectionError),
        "cannot be reached",
        "Look at the network and at its address, or ",
        True,
    ),
    (
        (failing.ModelUnavailableError, failing.ModelServerError),
        "cannot answer now",
        "Ask again later, or ",
        True,
    ),
    (
        failing.ContentFilterError,
        "refused: its content filter stopped the reply",
        "Ask otherwise, or ",
        False,
    ),
    (
        (failing.ModelRequestRejectedError, failing.ModelHTTPError),
        "refused the request{said}",
        "Look at its row, or ",
        False,
    ),
    ((failing.UserError, CellwrightError), "cannot be asked like that{said}", "Look at its row, or ", False),
)
_KNOWN_CATEGORIES = (failing.ModelQuotaExceededError, failing.ModelRateLimitError)


def failure_of(row: ModelRow, error: Exception, secrets: Sequence[str] = ()) -> ModelFailed:
    """What an error of a provider's library means for whoever asked."""
    if isinstance(error, ModelFailed):
        return error
    message, hint, again = _meaning(row, error)
    after_s = getattr(error, "retry_after", None)
    return ModelFailed(
        without(secrets, f"{row.full_name} {message}"), hint=hint, again=again, after_s=after_s
    )


def flaw_of(row: ModelRow, response: ModelResponse, *, says_end: bool = True) -> ModelFailed | None:
    """Why a reply that came cannot be used, if it cannot. ``says_end``: a whole one says that it is whole."""
    found = _flaw(response, says_end=says_end)
    if found is None:
        return None
    message, hint, again = found
    return Unanswered(f"{row.full_name} {message}", usage=usage_of(response, row), hint=hint, again=again)


def without(secrets: Sequence[str], text: str) -> str:
    """A text without any of the secrets."""
    for secret in secrets:
        text = text.replace(secret, "…")
    return text


def _meaning(row: ModelRow, error: Exception) -> tuple[str, str | None, bool]:
    """What happened, what to do next, and whether asking again may help."""
    if isinstance(error, failing.ModelAuthenticationError):
        return "refused the key", _key_hint(row), False
    if _broke_off(error):
        return _BROKE_OFF
    if isinstance(error, failing.ModelHTTPError):
        status = error.status_code
        if (status in _PASSING or status >= _SERVER_ERROR) and not isinstance(error, _KNOWN_CATEGORIES):
            return f"cannot answer now (status {status})", f"Ask again later, or {_OTHER}", True
    for kinds, words, then, again in _MEANINGS:
        if isinstance(error, kinds):
            return words.format(limit=f"{row.context_tokens:,}", said=_said(error)), f"{then}{_OTHER}", again
    # All that is left is a reply that its library could not make sense of; another one may be better.
    return f"sent something that cannot be read ({type(error).__name__})", f"Ask again, or {_OTHER}", True


def _broke_off(error: Exception) -> bool:
    if isinstance(error, failing.ModelTimeoutError):
        return False
    if isinstance(error, failing.ModelConnectionError):
        return error.in_stream or error.phase == "read"
    return isinstance(error, failing.ModelAPIError) and "without a `finish_reason`" in error.message


def _flaw(response: ModelResponse, *, says_end: bool) -> tuple[str, str | None, bool] | None:
    details = response.provider_details or {}
    match response.finish_reason:
        case "content_filter" if refusal := str(details.get("refusal") or "").strip():
            return f"refused: {refusal[:_SHOWN]}", f"Ask otherwise, or {_OTHER}", False
        case "content_filter":
            return "refused: its content filter stopped the reply", f"Ask otherwise, or {_OTHER}", False
        case "length":
            return (
                f"was cut off at its limit, after {response.usage.output_tokens:,} tokens",
                "Ask for less at once",
                False,
            )
        case "error":
            return "gave up in the middle of its reply", f"Ask again, or {_OTHER}", True
        case None if says_end or response.state in ("incomplete", "interrupted"):
            return _BROKE_OFF
    return _nothing_said(response)


def _nothing_said(response: ModelResponse) -> tuple[str, str | None, bool] | None:
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    for call in calls:
        if not _readable(call):
            return (
                f"called {call.tool_name} with arguments that are no JSON object",
                f"Ask again, or {_OTHER}",
                True,
            )
    spoken = any(isinstance(part, TextPart) and part.content.strip() for part in response.parts)
    if calls or spoken:
        return None
    thought = any(isinstance(part, ThinkingPart) for part in response.parts)
    return (
        ("thought, and said nothing" if thought else "sent an empty reply"),
        f"Ask again, or {_OTHER}",
        True,
    )


def _readable(call: ToolCallPart) -> bool:
    try:
        call.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError):
        return False
    return True


def _said(error: Exception) -> str:
    """What the provider itself says, in short."""
    text = _words(error.body) if isinstance(error, failing.ModelAPIError) else str(error)
    return f": {' '.join(text.split())[:_SHOWN]}" if text else ""


def _words(body: Any) -> str:
    if isinstance(body, str):
        return body
    if isinstance(body, list) and body:
        return _words(body[0])
    if isinstance(body, dict):
        return _words(body.get("message") or body.get("error") or "")
    return ""


def _key_hint(row: ModelRow) -> str:
    variables = " or ".join(every_provider()[row.provider].key_variables) or "its key"
    return f"Set {variables} to one that is valid for it, or {_OTHER}"
