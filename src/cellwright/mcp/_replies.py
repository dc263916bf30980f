"""How a call that ran something is answered: text with pictures or one JSON object, and what changed besides."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import anyio
import msgspec
from mcp.types import ImageContent

from cellwright.engine import Execution, Session
from cellwright.mcp._arguments import ResponseFormat
from cellwright.mcp.calls import Call, Reply
from cellwright.mcp.context import Known
from cellwright.mcp.outputs import (
    MAX_PICTURES,
    MAX_PIXELS,
    Part,
    clean,
    output_uri,
    parts_of,
    picture_content,
    session_uri,
    size,
)
from cellwright.notebook.python_names import names_defined
from cellwright.plans.hints import MAX_HINT_TOKENS, Hint, hints_of
from cellwright.sandbox.files import quoted_path
from cellwright.text_budget import CHARACTERS_PER_TOKEN, cut_middle, share

__all__ = [
    "DEFAULT_TOKENS",
    "Told",
    "execution_reply",
    "executions_json",
    "executions_text",
    "gather",
    "hint_text",
    "last_line",
    "rendered",
]

_MAX_NEWS = 300

_MOST_TYPES = 5

# Where cells of different languages leave what they pass to each other (see ``cellwright_kernel._values``).
_put = re.compile(r"(?:^|/)\.cellwright/values/(?P<name>\w+)\.(?:json|arrow)$")

_FILES_IN_TEXT = 5

_BROUGHT_BACK = "; notebook_replay brings them back, until something new has run well"


async def execution_reply(
    call: Call,
    session: Session,
    executions: Sequence[Execution],
    *,
    response_format: ResponseFormat,
    max_tokens: int | None,
    cell_id: str | None = None,
) -> Reply:
    """Answer a call with the executions it started or waited for."""
    call.about["cells"] = [execution.cell_id for execution in executions if execution.cell_id is not None]
    known = await call.shared.knowledge.of(session)
    for execution in executions:
        known = await call.shared.knowledge.learn(session, execution)
        if execution.done:
            await execution.wait_for_files(call.shared.pace.files_s)
    if response_format == "json":
        found = executions_json(
            executions,
            cell_id=cell_id or executions[-1].cell_id,
            max_tokens=max_tokens,
            say=call.shared.names.say,
            say_error=call.shared.names.say_error,
        )
        found |= _files_json(executions)
        if (prompt := _asks(session, executions)) is not None:
            found["asks"] = prompt
        if (hint := await _hint(call, session, _failed(executions))) is not None:
            found["hint"] = hint.as_json()
        if news := _news(call, session, known, executions):
            found["context"] = news
        if call.notes:
            found["notes"] = list(call.notes)
            call.notes.clear()
        return Reply(json.dumps(found, ensure_ascii=False, separators=(",", ":")), data=found)
    text, images = await rendered(call, executions, max_tokens=max_tokens, cell_id=cell_id)
    lines = [
        text,
        *await hint_text(call, session, executions),
        *_files_text(call, session, executions),
        *_asks_text(session, executions),
        *_next_calls(executions),
        *_news(call, session, known, executions),
    ]
    return Reply("\n".join(lines), images)


async def hint_text(call: Call, session: Session, executions: Sequence[Execution]) -> list[str]:
    """What the fixers say of the execution that failed: a line, or none."""
    failed = _failed(executions)
    hint = await _hint(call, session, failed)
    if failed is None or hint is None:
        return []
    install = f" package_install({json.dumps(hint.packages)})" if hint.packages else ""
    # The kernel may have said so in the error itself.
    advised = "package_install" in str((failed.error or {}).get("evalue"))
    named = bool(install) and not advised and "package_install" in call.shared.names.there
    fits = len(hint.line + install) <= MAX_HINT_TOKENS * CHARACTERS_PER_TOKEN
    return [clean(hint.line + (install if named and fits else ""))]


async def _hint(call: Call, session: Session, failed: Execution | None) -> Hint | None:
    return await hints_of(call.engine).of(session, failed) if failed is not None else None


def _failed(executions: Sequence[Execution]) -> Execution | None:
    return next((execution for execution in reversed(executions) if execution.state == "error"), None)


async def rendered(
    call: Call,
    executions: Sequence[Execution],
    *,
    max_tokens: int | None = None,
    cell_id: str | None = None,
) -> tuple[str, tuple[ImageContent, ...]]:
    """Executions as text and pictures; scaling a picture takes longer than others should wait for.

    ``cell_id`` is the cell that the call named.
    """
    client, session_id = call.client, executions[0].session_id
    told = Told(client.addressed, client.generations.get(session_id, 1), cell_id)
    client.addressed = session_id
    gathered = gather(executions, say_error=call.shared.names.say_error)
    render = partial(
        executions_text,
        gathered,
        max_tokens=max_tokens,
        max_pixels=call.engine.settings.image_pixels,
        say=call.shared.names.say,
        told=told,
    )
    if any(part.picture is not None for _, parts in gathered for part in parts):
        return await anyio.to_thread.run_sync(render)
    return render()


def _files_text(call: Call, session: Session, executions: Sequence[Execution]) -> list[str]:
    """A line with what was left in the working directory, and one with the values that were put, if any were.

    Where that directory is, a client is told once.
    """
    found = _files_json(executions)
    if not found:
        return []
    put = {one["path"]: match["name"] for one in found["files"] if (match := _put.search(one["path"]))}
    lines = [f"values put: {', '.join(sorted(set(put.values())))}"] if put else []
    named = [
        f"{quoted_path(one['path'])} {one['type'] if one['type'] != 'file' else size(one['size'])}"
        for one in found["files"]
        if one["path"] not in put
    ]
    more = len(named) - _FILES_IN_TEXT + found.get("more_files", 0)
    tail = f", … {more} more" if more > 0 else ""
    if not named and more <= 0:
        return lines
    known = call.client.places.get(session.id) == found["files_in"]
    call.client.places[session.id] = found["files_in"]
    where = "" if known else f" (in {found['files_in']})"
    return [*lines, f"files: {', '.join(named[:_FILES_IN_TEXT])}{tail}{where}"]


def _files_json(executions: Sequence[Execution]) -> dict[str, Any]:
    """What executions left, each file once and as the last of them left it."""
    files = {file.path: file for execution in executions for file in execution.files}
    if not files:
        return {}
    last = next(execution.record for execution in reversed(executions) if execution.files)
    about: dict[str, Any] = {
        "files": [msgspec.to_builtins(file) for file in files.values()],
        "files_in": last.files_directory,
    }
    more = max(execution.record.more_files for execution in executions)
    return about | ({"more_files": more} if more else {})


def _asks(session: Session, executions: Sequence[Execution]) -> str | None:
    """What one of these executions waits to be answered by a person."""
    questions = (session.questions.of(execution.id) for execution in executions if not execution.done)
    return next((clean(question.prompt).strip() for question in questions if question is not None), None)


def _asks_text(session: Session, executions: Sequence[Execution]) -> list[str]:
    prompt = _asks(session, executions)
    return [f"It waits for a person's answer to {prompt!r}"] if prompt is not None else []


def _next_calls(executions: Sequence[Execution]) -> list[str]:
    unfinished = [execution for execution in executions if not execution.done]
    if not unfinished:
        return []
    first = unfinished[0].id
    return [
        f"Still {unfinished[0].state}: execution_wait('{first}') to go on waiting, execution_cancel('{first}') to stop"
    ]


def _news(call: Call, session: Session, known: Known, executions: Sequence[Execution]) -> list[str]:
    """What this client has not been told of the session yet: a new kernel, new names."""
    client = call.client
    say = call.shared.names.say
    news = [*map(say, _kernel_news(call, session, known, executions)), *_type_news(call, session)]
    names = known.names
    before = client.names.get(session.id, frozenset()) | _own_names(call, session, executions)
    groups = (("imports", names.imports), ("functions", names.functions), ("variables", names.variables))
    fresh = [
        f"{kind} {', '.join(new)}"
        for kind, held in groups
        if (new := [name for name in held if name not in before])
    ]
    client.names[session.id] = frozenset(names.all())
    if fresh:
        line = f"context: new {'; '.join(fresh)}"
        news.append(line if len(line) <= _MAX_NEWS else line[:_MAX_NEWS] + say("… (session_context has all)"))
    return news


def _own_names(call: Call, session: Session, executions: Sequence[Execution]) -> set[str]:
    """The names that are in code which the client itself wrote."""
    return {
        name
        for execution in executions
        if call.client.has_written(execution.record.source)
        for name in names_defined(
            execution.record.source, execution.record.language or session.language
        ).all()
    }


def _kernel_news(call: Call, session: Session, known: Known, executions: Sequence[Execution]) -> list[str]:
    """That names are gone which this client, or whoever worked here before it, made."""
    before = call.client.generations.get(session.id)
    call.client.generations[session.id] = session.generation
    # What an execution's note says of the kernel is told already.
    if any(each.record.note for each in executions):
        return []
    if before is None:
        # Whoever comes anew, as each command of the command line does, knows no generation but misses the names.
        missing = executions[0].record.number > 1 and _is_empty(session, known)
        return [f"The kernel is new, earlier names are gone{_BROUGHT_BACK}"] if missing else []
    if before >= session.generation:
        return []
    now = f"generation {before} is now {session.generation}"
    if len(session.record.lineage) > 1:
        return [f"The kernel goes on from an earlier state: {now}, names are those of then"]
    call.client.names.pop(session.id, None)
    hint = _BROUGHT_BACK if session.record.former else ""
    return [f"The kernel was replaced: {now}, earlier names are gone{hint}"]


def _is_empty(session: Session, known: Known) -> bool:
    """Whether a kernel took the place of a lost one and has made nothing yet, by a replay neither."""
    if not session.record.former or len(session.record.lineage) > 1:
        return False
    return known.generation < session.generation or not known.names.all()


def _type_news(call: Call, session: Session) -> list[str]:
    """What the check of types found that this client has not been told."""
    found = tuple(
        f"cell {cell.id} line {one.get('line')}: {one.get('code')} {one.get('message')}"
        for cell in session.cells
        for one in cell.diagnostics
    )
    before = call.client.types.get(session.id, ())
    call.client.types[session.id] = found
    if found == before:
        return []
    if not found:
        return ["types: nothing is wrong any more"]
    new = [line for line in found if line not in before]
    more = [f"… {len(new) - _MOST_TYPES} more"] if len(new) > _MOST_TYPES else []
    return [f"types: {line}" for line in (*(one[:_MAX_NEWS] for one in new[:_MOST_TYPES]), *more)]


# An execution as an agent reads it: a line that says how it ended, then its outputs within a budget.

DEFAULT_TOKENS = 2_000

_SLACK = 400

_MOST_OUTPUTS = 40

_TOKENS_PER_OUTPUT = 50

_MOST_LATE = 2_000

_LONG_S = 5.0

# What must be cut anyhow is cut to this: a reader of a part goes on to the resource.
_CUT_TOKENS = 1_500

Gathered: TypeAlias = tuple[Execution, list[Part]]


def gather(executions: Sequence[Execution], *, say_error: Callable[[str], str] = str) -> list[Gathered]:
    """Executions with what they have put out so far, to be rendered in a thread where there are pictures to scale."""
    return [(execution, _in_words(parts_of(execution.outputs), say_error)) for execution in executions]


def _in_words(parts: Sequence[Part], say_error: Callable[[str], str]) -> list[Part]:
    """The parts with errors in the client's words."""
    return [replace(part, text=say_error(part.text)) if part.kind == "error" else part for part in parts]


@dataclass(frozen=True, slots=True)
class Told:
    """What a client knows of an execution before it reads of it."""

    session_id: str | None = None
    generation: int = 1
    cell_id: str | None = None


_NOTHING = Told()


def state_line(execution: Execution, parts: Sequence[Part], told: Told = _NOTHING) -> str:
    """How an execution stands, and of what it is as much as was not told."""
    record = execution.record
    cell_id = record.cell_id if record.cell_id != told.cell_id else None
    facts = [
        record.state,
        _undoing(execution),
        f"session {record.session_id}" if record.session_id != told.session_id else None,
        f"cell {cell_id}" if cell_id is not None else None,
        f"execution {record.id}" if not execution.done else None,
        f"generation {record.generation}" if record.generation != told.generation else None,
        f"{record.seconds:.3g} s" if (record.seconds or 0) >= _LONG_S else None,
        f"checkpoint: {checkpoint}" if (checkpoint := _checkpoint(execution)) else None,
        f"{size(dropped)} dropped at the source" if (dropped := record.dropped_bytes) else None,
        None if parts else "no output" if execution.done else "no output yet",
    ]
    return " | ".join(fact for fact in facts if fact)


def _undoing(execution: Execution) -> str | None:
    """Whether it failed and leaves no trace, or will in a moment."""
    if execution.record.rolled_back:
        return "rolled back"
    return "rolling back" if execution.record.is_to_undo else None


def _checkpoint(execution: Execution) -> str | None:
    """The checkpoint before it, or why there is none; None where none was wanted."""
    record = execution.record
    if record.checkpoint is not None:
        return record.checkpoint
    return f"none ({clean(record.no_checkpoint)})" if record.no_checkpoint is not None else None


def _label(part: Part) -> str:
    return part.mime if part.kind in {"result", "display"} else part.kind


# As text and pictures ------------------------------------------------------------------------------------------------


def executions_text(
    gathered: Sequence[Gathered],
    *,
    max_tokens: int | None = None,
    max_pixels: int = MAX_PIXELS,
    say: Callable[[str], str] = str,
    told: Told = _NOTHING,
) -> tuple[str, tuple[ImageContent, ...]]:
    """Executions, each with its line, its reason, and its outputs; the budget is for all of them together.

    The engine's sentences, not the outputs, go through ``say``, which puts them in the client's words.
    """
    lines = _lines_before(gathered, say, told)
    whole = (max_tokens or DEFAULT_TOKENS) * CHARACTERS_PER_TOKEN
    shown = [(execution, part) for execution, parts in gathered for part in parts]
    taken = sum(len(line) for line in lines)
    least = whole if max_tokens else _CUT_TOKENS * CHARACTERS_PER_TOKEN
    texts = iter(_fitted(shown, whole - taken, least - taken))
    pictures = _Pictures(max_pixels)
    pieces: list[str] = []
    for (execution, parts), line in zip(gathered, lines, strict=True):
        pieces.append(line)
        pieces += [_part_text(execution, part, next(texts), pictures) for part in parts]
        pieces.append(_late_text(execution))
    text = "\n".join(text.rstrip("\n") for text in pieces if text)
    if len(text) > whole + _SLACK:
        # Thousands of small outputs are each within their share and together are not.
        text = cut_middle(text, whole + _SLACK, rest=_history(gathered))
    return text, tuple(pictures.taken)


def _fitted(shown: Sequence[tuple[Execution, Part]], budget: int, cut_to: int | None = None) -> list[str]:
    """The texts of outputs; together over the budget, the longest are cut until all have ``cut_to``, else the budget."""
    lengths = [len(part.text) for _, part in shown]
    if sum(lengths) <= budget:
        return [part.text for _, part in shown]
    return [
        cut_middle(part.text, limit, rest=output_uri(execution.session_id, execution.id, part.index))
        for (execution, part), limit in zip(
            shown, share(lengths, budget if cut_to is None else cut_to), strict=True
        )
    ]


def _history(gathered: Sequence[Gathered]) -> str:
    return session_uri(gathered[0][0].session_id, "history")


@dataclass(slots=True)
class _Pictures:
    """The pictures of one reply: the first few, scaled."""

    max_pixels: int
    taken: list[ImageContent] = field(default_factory=list)

    def take(self, data: str, mime: str) -> bool:
        if len(self.taken) >= MAX_PICTURES:
            return False
        content = picture_content(data, mime, max_pixels=self.max_pixels)
        if content is not None:
            self.taken.append(content)
        return content is not None


def _lines_before(gathered: Sequence[Gathered], say: Callable[[str], str], told: Told) -> list[str]:
    """A line or two for each execution; those that did not run for one reason are told together."""
    lines: list[str] = []
    dropped: dict[str, int] = {}
    for execution, parts in gathered:
        line = state_line(execution, parts, told)
        told = replace(told, session_id=execution.session_id, generation=execution.generation)
        if execution.record.note:
            line = f"{line}\n{say(clean(execution.record.note))}"
        reason = say(execution.reason) if execution.reason else None
        if reason and execution.record.started_at is None and execution.done:
            if reason in dropped:
                lines[dropped[reason]] += f", {execution.cell_id or 'scratch'}"
                lines.append("")
                continue
            dropped[reason] = len(lines)
            line = f"{line}\n{reason}: {execution.cell_id or 'scratch'}"
        elif reason:
            line = f"{line}\n{reason}"
        lines.append(line)
    return lines


def _part_text(execution: Execution, part: Part, text: str, pictures: _Pictures) -> str:
    uri = output_uri(execution.session_id, execution.id, part.index)
    if part.kind == "stderr" and text:
        text = f"stderr: {text}"
    if part.picture is not None:
        if not pictures.take(part.picture, part.mime):
            return "\n".join(filter(None, [text, f"[{part.mime}, {size(part.size)}, not shown: {uri}]"]))
    elif not part.text and part.size:
        return f"[{part.mime}, {size(part.size)}: {uri}]"
    return text


def _late_text(execution: Execution) -> str:
    """What was said in its name after its end, as such."""
    late = [f"{_label(part)}: {part.text or size(part.size)}" for part in parts_of(execution.late_outputs)]
    words = "After its end, no part of its outputs (a thread or another cell said it in its name):"
    # The late outputs' addresses go on where those of the outputs end.
    first = output_uri(execution.session_id, execution.id, len(execution.outputs))
    rest = f"{first} and on" if len(late) > 1 else first
    return cut_middle("\n".join([words, *late]), _MOST_LATE, rest=rest) if late else ""


# As one JSON object --------------------------------------------------------------------------------------------------


def executions_json(
    executions: Sequence[Execution],
    *,
    cell_id: str | None,
    max_tokens: int | None = None,
    say: Callable[[str], str] = str,
    say_error: Callable[[str], str] = str,
) -> dict[str, Any]:
    """Executions of one call as one object: streams joined, the last result, the first error; ``say`` as for text.

    An error goes through ``say_error``, which leaves out the kernel's advice to call what the client lacks.
    """
    gathered = gather(executions, say_error=say_error)
    parts = [(execution, part) for execution, parts in gathered for part in parts]
    tokens = max_tokens or DEFAULT_TOKENS
    most = max(tokens // _TOKENS_PER_OUTPUT, _MOST_OUTPUTS)
    cut = _fitted(parts, tokens * CHARACTERS_PER_TOKEN)
    failed = next((execution for execution in executions if execution.error is not None), None)
    results = [text for (_, part), text in zip(parts, cut, strict=True) if part.kind == "result"]
    last = next((each for each in reversed(executions) if each.state != "interrupted"), executions[-1])
    seconds = [execution.seconds for execution in executions if execution.seconds is not None]
    found: dict[str, Any] = {
        "status": _status(executions),
        "session_id": last.session_id,
        "execution_id": last.id,
        "cell_id": cell_id,
        "generation": last.generation,
        "stdout": "".join(text for (_, part), text in zip(parts, cut, strict=True) if part.kind == "stdout"),
        "stderr": "".join(text for (_, part), text in zip(parts, cut, strict=True) if part.kind == "stderr"),
        "result": results[-1] if results else None,
        "error": _error(failed, parts, cut, say_error) if failed is not None else None,
        "outputs": [_output(*pair, text) for pair, text in zip(parts[:most], cut, strict=False)],
        "duration_ms": round(sum(seconds) * 1_000) if seconds else None,
        "truncated": any(text != part.text for (_, part), text in zip(parts, cut, strict=True))
        or any(execution.record.dropped_bytes for execution in executions),
    }
    if len(parts) > most:
        found |= {"truncated": True, "more_outputs": len(parts) - most}
    if reason := next((execution.reason for execution in executions if execution.reason), None):
        found["reason"] = say(reason)
    found |= _returning(last)
    if note := next((each.record.note for each in executions if each.record.note), None):
        found["note"] = say(clean(note))
    if late := "\n".join(filter(None, map(_late_text, executions))):
        found["late_output"] = late
    if len(executions) > 1:
        found["cells"] = [_brief(execution) for execution in executions]
    return found


def _returning(execution: Execution) -> dict[str, Any]:
    """What an execution has to do with checkpoints, if anything."""
    found: dict[str, Any] = {}
    if (checkpoint := _checkpoint(execution)) is not None:
        found["checkpoint"] = checkpoint
    if execution.record.on_error == "rollback":
        found["rolled_back"] = execution.record.rolled_back
    return found


def _status(executions: Sequence[Execution]) -> str:
    for state in ("running", "queued", "died", "timeout", "error", "interrupted"):
        if any(execution.state == state for execution in executions):
            return state
    return "ok"


def _brief(execution: Execution) -> dict[str, Any]:
    seconds = execution.seconds
    return {
        "cell_id": execution.cell_id,
        "execution_id": execution.id,
        "status": execution.state,
        "duration_ms": round(seconds * 1_000) if seconds is not None else None,
        **_returning(execution),
    }


def _error(
    failed: Execution,
    parts: Sequence[tuple[Execution, Part]],
    cut: Sequence[str],
    say_error: Callable[[str], str],
) -> dict[str, Any] | None:
    error = failed.error or {}
    traceback = [
        text
        for (execution, part), text in zip(parts, cut, strict=True)
        if execution is failed and part.kind == "error"
    ]
    return {
        "ename": error.get("ename"),
        "evalue": say_error(clean(str(error.get("evalue", "")))),
        "traceback": traceback[0].splitlines() if traceback else [],
    }


def _output(execution: Execution, part: Part, text: str) -> dict[str, Any]:
    about: dict[str, Any] = {"type": part.kind, "mime": part.mime, "bytes": part.size}
    if part.kind == "display" and text:  # told nowhere else
        about["text"] = text
    if part.picture is not None or text != part.text or not part.text:
        about["uri"] = output_uri(execution.session_id, execution.id, part.index)
    return about


def last_line(execution: Execution) -> str:
    """The last thing a running execution said, for a line of progress."""
    for output in reversed(execution.outputs):
        if output.get("output_type") == "stream":
            lines = clean(output["text"]).split("\n")
            last = next((line.strip() for line in reversed(lines) if line.strip()), "")
            if last:
                return last[:200]
    return ""
