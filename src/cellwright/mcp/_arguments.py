"""What a tool may be given: closed, bounded, and published as a schema that costs few tokens.

The untrusted edge of the MCP server. Each tool's own arguments stand beside the tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

__all__ = [
    "AS_IN_CREATE",
    "MAX_CONTENT",
    "Arguments",
    "CellId",
    "Code",
    "Content",
    "ExecutionId",
    "Formerly",
    "MaxTokens",
    "ResponseFormat",
    "SessionId",
    "TimeLimits",
    "TimeoutS",
    "WaitS",
    "complaint",
    "former_names",
    "in_names_of_now",
    "published_schema",
    "unit_note",
]

MAX_CONTENT = 5_000_000
_MAX_ID = 300
_SHOWN_COMPLAINTS = 5
# Eight million characters, which the daemon can send in one message whatever they are.
_MAX_TOKENS = 2_000_000
_LONGEST_S = 7 * 24 * 3_600
_LONGEST_WAIT_S = 280


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """How long code may run where a call names no limit, as the operator set it."""

    cell_s: float
    script_s: float


@dataclass(frozen=True, slots=True)
class Formerly:
    """The name that an argument had before: taken as ever, and published only by dialects that are specified with it."""

    name: str
    per_unit: int = 1
    """How many of its units then make one of now: it may have been in milliseconds."""

    def converted(self, value: Any) -> Any:
        """A value in the unit of now; what is no number is left for its check to refuse."""
        if self.per_unit == 1 or isinstance(value, bool) or not isinstance(value, int | float):
            return value
        return value / self.per_unit


class Arguments(BaseModel):
    """The arguments of one tool."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def operators_defaults(cls, limits: TimeLimits) -> Mapping[str, Any]:  # for those that have some
        """Return the values, by argument, that the operator's settings give to a call which leaves them out.

        They are published, since some clients fill in every default: another one would override the operator.
        """
        return {}


@cache
def former_names(model: type[BaseModel]) -> Mapping[str, Formerly]:
    """The arguments that had another name before, each with it."""
    return {
        name: former
        for name, field in model.model_fields.items()
        for former in field.metadata
        if isinstance(former, Formerly)
    }


def in_names_of_now(given: Mapping[str, Any], former: Mapping[str, Formerly]) -> dict[str, Any]:
    """A call's arguments by the names and in the units of now."""
    named = dict(given)
    for name, before in former.items():
        if before.name in named and name not in named:
            named[name] = before.converted(named.pop(before.name))
    return named


SessionId: TypeAlias = Annotated[str | None, Field(default=None, max_length=_MAX_ID)]
CellId: TypeAlias = Annotated[str, Field(min_length=1, max_length=_MAX_ID)]
ExecutionId: TypeAlias = Annotated[str, Field(min_length=1, max_length=_MAX_ID)]
Content: TypeAlias = Annotated[str, Field(max_length=MAX_CONTENT)]
MaxTokens: TypeAlias = Annotated[int | None, Field(default=None, ge=50, le=_MAX_TOKENS)]
Code: TypeAlias = Annotated[str, Field(max_length=MAX_CONTENT), Formerly("content")]
TimeoutS: TypeAlias = Annotated[
    float | None, Field(default=None, gt=0, le=_LONGEST_S), Formerly("timeout", per_unit=1_000)
]
WaitS: TypeAlias = Annotated[
    float | None, Field(default=None, ge=0, le=_LONGEST_WAIT_S), Formerly("wait", per_unit=1_000)
]
ResponseFormat: TypeAlias = Literal["text", "json"]
# A model that reads the tools has read what it is there.
AS_IN_CREATE = WithJsonSchema({"type": "string", "description": "As in notebook_create"})


def complaint(
    tool: str,
    schema: dict[str, Any],
    error: ValidationError,
    former: Mapping[str, Formerly] = MappingProxyType({}),
) -> str:
    """What is wrong with a call's arguments, in a line each, and which there are; by names of ``former`` if it has any."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [
        _problem(_as_published(problem["loc"], former), problem["msg"])
        for problem in problems[:_SHOWN_COMPLAINTS]
    ]
    required = set(schema.get("required", ()))
    known = ", ".join(name + ("*" if name in required else "") for name in schema.get("properties", {}))
    return f"{tool}: " + "; ".join(lines) + f". Call {tool}({known}) (* required)"


def _as_published(place: tuple[int | str, ...], former: Mapping[str, Formerly]) -> tuple[int | str, ...]:
    return tuple(former[part].name if isinstance(part, str) and part in former else part for part in place)


def _problem(place: tuple[int | str, ...], message: str) -> str:
    name = ".".join(str(part) for part in place)
    if message == "Extra inputs are not permitted":
        return f"there is no argument {name!r}"
    if name.endswith("_s"):
        message += " (seconds)"
    if name == "cell_id" and "string" in message:
        return f"{name}: cells are named by their ids, not by numbers; notebook_read shows them"
    return f"{name}: {message[0].lower()}{message[1:]}" if name else message


_PLAINLY_MS = 5_000
_HOUR_S = 3_600


def unit_note(timeout_s: float) -> str | None:
    """What to say of a limit in seconds that was plainly meant in milliseconds: thousands of them, and no whole hours."""
    if timeout_s < _PLAINLY_MS or timeout_s % 1_000 or not timeout_s % _HOUR_S:
        return None
    meant = f"{timeout_s / 1_000:g}"
    return f"The time limit is in seconds: {timeout_s:g} is {timeout_s / _HOUR_S:.3g} h; give {meant} for {meant} s"


def published_schema(
    model: type[BaseModel],
    *,
    also_required: tuple[str, ...] = (),
    but: tuple[str, ...] = (),
    defaults: Mapping[str, Any] = MappingProxyType({}),
    all_defaults: bool = False,
    former: bool = False,
) -> dict[str, Any]:
    """A model's JSON schema without what tells a caller nothing.

    ``also_required`` are arguments that callers should give, though a call without them is understood; ``but`` are
    those that are not told of. ``defaults`` come in place of the model's own; ``all_defaults`` publishes those, too, that
    a reader could guess, and ``former`` the names that arguments had before.
    """
    schema = model.model_json_schema()
    published = {name: about for name, about in schema.get("properties", {}).items() if name not in but}
    properties = {name: _plain(about) for name, about in published.items()}
    if all_defaults:
        guessed = {
            name: about["default"] for name, about in published.items() if about.get("default") is not None
        }
        defaults = {**guessed, **defaults}
    for name, default in defaults.items():
        properties[name]["default"] = (
            int(default) if isinstance(default, float) and default.is_integer() else default
        )
    required_names = {*schema.get("required", ()), *also_required}
    if former:
        names = former_names(model)
        required_names = {names[name].name if name in names else name for name in required_names}
        properties = dict(_formerly(name, about, names.get(name)) for name, about in properties.items())
    slim: dict[str, Any] = {"type": "object", "properties": properties}
    if required := [name for name in properties if name in required_names]:
        slim["required"] = required
    if definitions := schema.get("$defs"):
        slim["$defs"] = {name: _plain(about) for name, about in definitions.items()}
        for about in slim[
            "$defs"
        ].values():  # whoever refers to it says what it is, and what is not there is told
            about.pop("description", None)
            about.pop("additionalProperties", None)
    # That there are no others is told to whoever gives one: said here, it would cost every client 300 tokens.
    return slim


def _formerly(name: str, about: dict[str, Any], former: Formerly | None) -> tuple[str, dict[str, Any]]:
    """A property as it was published under its former name."""
    if former is None:
        return name, about
    if former.per_unit == 1:
        return former.name, about
    default = {"default": round(about["default"] * former.per_unit)} if "default" in about else {}
    return former.name, {**about, "type": "integer", "description": "ms", **default}


_NOISE = frozenset(
    {"title", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "maxItems", "minItems"}
)


def _plain(about: dict[str, Any]) -> dict[str, Any]:
    """One property: a value that may be left out needs no null, and bounds are told when they are broken."""
    arms = [_plain(arm) for arm in about.get("anyOf", ()) if arm != {"type": "null"}]
    if arms:
        rest = {key: value for key, value in about.items() if key != "anyOf"}
        about = {**rest, **(arms[0] if len(arms) == 1 else {"anyOf": arms})}
    kept = {key: value for key, value in about.items() if key not in _NOISE}
    # Of several words the first is the one that is meant where none is given.
    usual = kept.get("enum", [None])[0]
    if kept.get("default", ...) in (None, "", [], usual):
        del kept["default"]
    if kept.get("additionalProperties") is True:
        del kept["additionalProperties"]
    if isinstance(kept.get("items"), dict):
        kept["items"] = _plain(kept["items"])
    if isinstance(kept.get("properties"), dict):
        kept["properties"] = {name: _plain(inner) for name, inner in kept["properties"].items()}
    return kept
