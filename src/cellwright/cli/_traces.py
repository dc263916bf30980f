"""What was asked of the data agent: its conversations, and the trace of a run."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from cellwright.cli._arguments import Argument, Exit, Option
from cellwright.cli._mcp_client import Caller, call_daemon
from cellwright.cli._terminal import (
    AsJson,
    ExitCode,
    counted,
    echo,
    from_here,
    note,
    printable,
    show_data,
    show_error,
    spent,
    table,
)
from cellwright.errors import CellwrightError

__all__ = ["delete_conversation", "list_conversations", "show_conversation", "trace"]

_ENDS = frozenset({"answer", "stop"})
ConversationArgument = Annotated[str, Argument(metavar="CONVERSATION", help="A conversation's id.")]


def _about(what: str, **arguments: Any) -> dict[str, Any]:
    async def ask(caller: Caller) -> dict[str, Any]:
        return await caller.data("ask", about=what, **arguments)

    return call_daemon(ask)


def list_conversations(as_json: AsJson = False) -> None:
    """List conversations, the one that was asked last first."""
    found = _about("conversations")["conversations"]
    show_data(
        found,
        printable(table(("CONVERSATION", "ASKED", "QUESTIONS", "MODEL", "TITLE"), map(_row, found))),
        as_json=as_json,
    )
    if not found:
        note('nothing was asked yet; `cellwright ask "…"` does')


def _row(brief: dict[str, Any]) -> tuple[object, ...]:
    when = datetime.fromtimestamp(brief["updated"]).astimezone().strftime("%Y-%m-%d %H:%M")
    trouble = f"  ({brief['trouble']})" if brief.get("trouble") else ""
    # A title is a person's or a model's own words: it stays in its line.
    title = " ".join(f"{brief['title']}{trouble}".split())
    return brief["id"], when, brief["runs"], brief["model"] or "-", title


def show_conversation(conversation: ConversationArgument, as_json: AsJson = False) -> None:
    """Show what was asked and answered in a conversation, with the ids of its runs."""
    found = _about("conversation", conversation=conversation)
    lines = [f"{found['title']} ({found['id']})"]
    lines += [
        f"notebook: {from_here(one['path'])} (session {one['session_id']})" for one in found["notebooks"]
    ]
    for run in found["runs"]:
        state = {True: "", False: " (stopped)", None: " (did not end)"}[run["ok"]]
        lines += ["", f"> {run['question']}", f"{run['run_id']}{state}: {run['answer']}"]
    show_data(found, printable("\n".join(lines)), as_json=as_json)


def delete_conversation(
    conversation: Annotated[list[str], Argument(metavar="CONVERSATION...", help="Their ids.")],
) -> None:
    """Delete conversations with their traces. Their notebooks stay."""
    for each in conversation:
        _about("forget", conversation=each)
        echo(each)


def trace(
    run: Annotated[str, Argument(metavar="RUN", help="A run's id, as `ask` tells it.")],
    output: Annotated[
        Path | None, Option("-o", "--output", help="Write all of it into this file, as JSON.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a run did step by step; with --json or -o all of it: prompts, replies, code, outputs, tokens, seconds."""
    found = _about("trace", run_id=run)
    if output is not None:
        from cellwright.notebook import write_atomically  # of no use to other commands

        try:
            write_atomically(
                output, json.dumps(found, ensure_ascii=False, indent=1).encode("utf-8", "replace")
            )
        except CellwrightError as error:
            show_error(error)
            raise Exit(ExitCode.RUN_FAILED) from error
        note(f"wrote {output}")
    if as_json or output is None:
        show_data(found, "\n".join(map(_step, found["steps"])), as_json=as_json)
    if not as_json:
        _tell_total(found["summary"])


def _tell_total(summary: dict[str, Any]) -> None:
    total = summary["total"]
    cost = spent(total["tokens_in"], total["tokens_out"], total["cached"], total["money"])
    end = "" if summary["complete"] else ", did not end"
    note(f"cost: {counted(total['requests'], 'request')}, {cost}, {summary['seconds']:.1f} s{end}")


def _step(step: dict[str, Any]) -> str:
    about = step.get("tool") or step.get("model") or ""
    usage = step.get("usage") or {}
    tokens = f"  {usage['tokens_in']} + {usage['tokens_out']} tokens" if usage.get("tokens_in") else ""
    said = (
        step.get("error") or step.get("note") or (step.get("result") if step["kind"] in _ENDS else "") or ""
    )
    mark = {"failed": "✗", "open": "…"}.get(step["state"], " ")
    line = f"{mark} {step['number']:>3}  {step['kind']:<8}  {step['branch']:<8}  {about}{tokens}  {step['took']:.2f} s"
    return printable(f"{line}  {' '.join(str(said).split())[:120]}").rstrip()
