"""Tools that make, find and end notebooks."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

import anyio
from pydantic import Field, WithJsonSchema

from cellwright.engine import Session
from cellwright.engine.approvals import Matter
from cellwright.engine.hosts import called_place
from cellwright.engine.kernel import runtime_of
from cellwright.engine.workspace import SessionLimits
from cellwright.errors import NotebookError, TemplateError
from cellwright.mcp._arguments import AS_IN_CREATE, Arguments, SessionId
from cellwright.mcp._shapes import Notebook, Notebooks
from cellwright.mcp._tool_names import ToolNames
from cellwright.mcp.calls import CHANGES, DESTROYS, READS, Call, Definition, Reply, data_reply
from cellwright.mcp.context import hold_data
from cellwright.notebook.compiler_options import checked_tsconfig
from cellwright.notebook.document import with_tsconfig
from cellwright.notebook.languages import canonical_language
from cellwright.plans.reports import plan_in, plan_json
from cellwright.sandbox.chosen_folders import judge_folder
from cellwright.sandbox.policy import Mode
from cellwright.templates import Opening, fill

__all__ = ["AGENTS_MODE", "NOTEBOOK_TOOLS", "about_session"]

AGENTS_MODE: Mode = "overlay"
"""How sessions of agents work where nobody asks for another mode; the engine makes it private without a project."""

_MAX_NAME = 2_000

ModeArgument: TypeAlias = Annotated[
    Mode | None,
    Field(
        default=None,
        description="Where code writes: overlay (default; a layer over the project), private, direct (the folder)",
    ),
]
# One line instead of nine properties: whoever asks for something else is told what there is.
_LESS = "Less than the operator allows: memory ('256MB'), disk, processes, cpu_s, cpus, cell_s, network='off', read_paths, write_paths"
LimitsArgument: TypeAlias = Annotated[
    SessionLimits | None, WithJsonSchema({"type": "object", "description": _LESS}), Field(default=None)
]
_AS_ABOVE_OBJECT = WithJsonSchema({"type": "object", "description": "As in notebook_create"})


class CreateNotebook(Arguments):
    name: str = Field(min_length=1, max_length=_MAX_NAME, description="What the notebook is for")
    language: str | None = Field(
        default=None,
        max_length=100,
        description="Of its cells: python (default), typescript, javascript, sql, r or any Jupyter kernel's",
    )
    description: str | None = Field(default=None, max_length=100_000)
    mode: ModeArgument = None
    limits: LimitsArgument = None
    host: str | None = Field(
        default=None,
        max_length=100,
        description="Where its kernel lives: local, slurm[:NAME], jupyter[:NAME]; host_list has them",
    )
    tsconfig: dict[str, Any] | None = Field(
        default=None, description="TypeScript compilerOptions to check types by"
    )
    template: str | None = Field(
        default=None, max_length=100, description="Begin with it, not run; a wrong name lists them"
    )
    parameters: dict[str, Any] | None = Field(default=None, description="The template's")


async def notebook_create(call: Call, args: CreateNotebook) -> Reply:
    """Make a new notebook and start its kernel. Later calls mean it, or the session_id that they name."""
    opening = await _opening(call, args)
    language = canonical_language(
        args.language or (opening.language if opening is not None else call.shared.default_language)
    )
    tsconfig = checked_tsconfig(args.tsconfig) if args.tsconfig is not None else None
    if tsconfig is not None and runtime_of(language) != "deno":
        raise NotebookError(
            f"tsconfig is for TypeScript and JavaScript, and this notebook would be {language}",
            hint="Leave it out, or give language='typescript'",
        )
    session = await call.engine.create(
        args.name,
        language=language,
        directory=call.notebooks,
        mode=args.mode or AGENTS_MODE,
        limits=args.limits.narrowing() if args.limits is not None else None,
        host=args.host or (opening.host if opening is not None else None),
        chosen=call.chosen,
    )
    if opening is not None:
        await fill(call.engine, call.shared.planner, session, opening)
    call.works_with(session)
    if tsconfig is not None:
        await session.apply([with_tsconfig(session.document, tsconfig)])
        session.types.prepare()
    if args.description:
        await session.edit_cell("problem", f"# {args.name}\n\n{args.description}")
    more: dict[str, Any] = {
        "losses": list(session.record.losses),
        "project": session.record.project,
        "unseen": await _unseen(call, session) if args.mode != "private" else None,
    }
    about = about_session(session, call.shared.names)
    for same in ("state", "generation", "cells", "notebook"):  # for every new one; the path has the name
        del about[same]
    if opening is not None:
        more |= {
            "packages_needed": list(opening.packages),
            "template": args.template,
            "cells": len(session.document),
        }
        if opening.outline is not None:
            more["plan"] = plan_json(call.shared.planner.plan(session), interrupted=False)
    known = ("language",) if args.language or language == "python" else ()
    return data_reply(about | {name: value for name, value in more.items() if value}, call, known=known)


async def _opening(call: Call, args: CreateNotebook) -> Opening | None:
    """What the template that is asked for begins with.

    Raises:
        TemplateError: there is no such template, it cannot be given these parameters, or is in another language.
    """
    if args.template is None:
        if args.parameters:
            raise TemplateError("Parameters are a template's", hint="Give its name as `template`")
        return None
    found = await anyio.to_thread.run_sync(call.shared.templates.find, args.template)
    if args.language and canonical_language(args.language) != found.language:
        raise TemplateError(
            f"The template {found.name!r} is in {found.language}, and not in {args.language}",
            hint="Leave the language out",
        )
    return found.opening(args.parameters or {})


async def _unseen(call: Call, session: Session) -> str | None:
    """Why code sees none of the files where the caller works, and what a person does about it."""
    if call.chosen is None or session.record.project is not None or session.record.is_foreign:
        return None
    judge = partial(
        judge_folder, call.chosen, home=call.engine.options.home, storage=call.engine.options.storage
    )
    return (await anyio.to_thread.run_sync(judge)).unseen


class OpenNotebook(Arguments):
    path: str = Field(
        min_length=1,
        max_length=4_000,
        description="From the root directory, or the Jupyter server's",
    )
    mode: Annotated[Mode | None, AS_IN_CREATE] = None
    limits: Annotated[SessionLimits | None, _AS_ABOVE_OBJECT] = None
    host: Annotated[str | None, AS_IN_CREATE] = None


async def notebook_open(call: Call, args: OpenNotebook) -> Reply:
    """Open an existing .ipynb file. Nothing is run."""
    limits = args.limits.narrowing() if args.limits is not None else None
    mode = args.mode or AGENTS_MODE
    host = call.engine.hosts.host_name(args.host)
    if host.kind == "jupyter" and not args.path.startswith(("/", "~")):
        session = await call.engine.open_there(args.path, host=str(host), mode=mode, limits=limits)
    else:
        session = await call.engine.open(
            call.path(args.path), mode=mode, limits=limits, host=args.host, chosen=call.chosen
        )
    call.works_with(session)
    return data_reply(about_session(session, call.shared.names), call)


class ListNotebooks(Arguments):
    filter: Literal["active", "suspended", "all"] = "active"


async def notebook_list(call: Call, args: ListNotebooks) -> Reply:
    """List open sessions with their notebooks."""
    sessions = [_listed(call, session) for session in call.engine.sessions(args.filter)]
    return data_reply({"sessions": sessions}, call)


def _listed(call: Call, session: Session) -> dict[str, Any]:
    about = about_session(session, call.shared.names)
    about["running"] = [execution.id for execution in session.runs.live]
    return {**about, "yours": session.id in call.client.sessions}


class DeleteNotebook(Arguments):
    session_id: SessionId = None
    remove_file: bool = Field(default=False, description="Also delete the .ipynb")


async def notebook_delete(call: Call, args: DeleteNotebook) -> Reply:
    """End a session: its kernel and history go, its .ipynb file stays."""
    session = call.session(args.session_id)
    what = f"delete session {session.name}" + (f" and {session.path.name}" if args.remove_file else "")
    await call.engine.approvals.require(Matter.of("delete", what, session.record))
    await call.shared.planner.pause(session.id)
    await call.engine.delete(session.id, remove_file=args.remove_file)
    call.client.forget(session.id)
    kept = {} if args.remove_file else {"kept": lies_at(session) or str(session.path)}
    return data_reply({"deleted": session.id, **kept}, call)


def lies_at(session: Session) -> str | None:
    """Where a session's notebook lies on a Jupyter server."""
    there = session.record.there
    return f"{there[1]} on {f'jupyter:{there[0]}' if there[0] else 'jupyter'}" if there is not None else None


def _network(session: Session) -> str | None:
    """How far a session's code reaches, where it does or could."""
    if (why := session.workspace.network_refused) is not None:
        return f"off: {why}"
    return session.network if session.network != "off" else None


def about_session(session: Session, names: ToolNames) -> dict[str, Any]:
    """A session's metadata, as every reply about a whole notebook has it, for a client that has these tools."""
    about: dict[str, Any] = {
        "session_id": session.id,
        "notebook": session.name,
        "path": str(session.path),
        "language": session.language,
        "state": session.state,
        "generation": session.generation,
        "cells": len(session.document),
        "cwd": str(session.cwd),
        "mode": session.mode,
    }
    more = {
        "reason": names.say(session.reason) if session.reason else None,
        "host": called_place(session.record) if session.state == "active" else session.record.host,
        "lies_at": lies_at(session),
        "sharing": session.sharing,
        "out_of_reach": names.say(session.host.away) if session.host.away else None,
        "expires_at": session.record.expires_at,
        "banner": session.banner,
        "interpreter": session.record.python,
        "tier": session.tier,
        "packages": list(session.record.packages),
        "network": _network(session),
        "limits": session.limits,
        "branch_of": session.record.branch_of,
        "adopted_by": session.record.adopted_by,
        "plan": plan_in(session.document.metadata),
        "held": hold_data(session.record.hold) if session.record.hold is not None else None,
    }
    return about | {name: value for name, value in more.items() if value}


NOTEBOOK_TOOLS = (
    Definition(notebook_create, CreateNotebook, CHANGES, gives=Notebook),
    Definition(notebook_open, OpenNotebook, CHANGES, gives=Notebook),
    Definition(notebook_list, ListNotebooks, READS, gives=Notebooks),
    Definition(notebook_delete, DeleteNotebook, DESTROYS, asks_for=("session_id",), needs="admin"),
)
