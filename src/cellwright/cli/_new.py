"""The command ``new``: a notebook with a live kernel, and where one is asked for, a plan that can be run at once."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cellwright.cli._allocations import host_named
from cellwright.cli._arguments import Argument, BadArgument, Exit, Option
from cellwright.cli._daemon_line import daemon_paths
from cellwright.cli._flags import HostOption, LimitOption, ModeOption, WorkMode, limit_values
from cellwright.cli._folders import AllowFolderOption, settle_folder
from cellwright.cli._mcp_client import Caller, ToolRefused, call_daemon
from cellwright.cli._terminal import AsJson, ExitCode, echo, show_data, show_error
from cellwright.errors import PlanError, TemplateError

if TYPE_CHECKING:
    from cellwright.plans import Outline, TodoOutline
    from cellwright.plans.plan_files import PlanFile
    from cellwright.templates import Template

__all__ = ["new"]


_PlanOption = Annotated[
    Path | None, Option("--plan", metavar="FILE", help="Its plan, from a .plan.md or .toml file.")
]
_TemplateOption = Annotated[
    str | None,
    Option("--template", "-t", metavar="NAME", help="Begin with one that `cellwright templates` lists."),
]
_ParameterOption = Annotated[
    list[str] | None,
    Option("--parameter", "-p", metavar="NAME=VALUE", help="Of the template; may be repeated."),
]


@dataclass(slots=True)
class _Beginning:
    """What a notebook is made with: of a plan file, of a template, or of the options alone."""

    problem: str | None
    language: str | None
    description: str | None
    outline: dict[str, Any] | None = None
    """A plan's arguments; an empty one is drafted."""
    template: str | None = None
    parameters: dict[str, str] | None = None


def new(
    problem: Annotated[
        str | None,
        Argument(help="What the notebook is for. [default: as the plan says]", show_default=False),
    ] = None,
    language: Annotated[str | None, Option(help="The language of its cells. [default: python]")] = None,
    description: Annotated[str | None, Option(help="More words for its first cell.")] = None,
    mode: ModeOption = None,
    limit: LimitOption = None,
    host: HostOption = None,
    plan: _PlanOption = None,
    template: _TemplateOption = None,
    parameter: _ParameterOption = None,
    draft: Annotated[bool, Option("--draft", help="Draft its plan from the files at hand.")] = False,
    run: Annotated[bool, Option("--run", help="Carry its plan out, else a drafted one.")] = False,
    allow_folder: AllowFolderOption = False,
    as_json: AsJson = False,
) -> None:
    """Create a notebook with a live kernel, and print its session's id. With a plan that is run, exits 0 if it succeeded."""
    begun = _Beginning(problem, language, description, {} if draft or run else None)
    _take_template(begun, template, parameter, run=run)
    _take_plan(begun, plan, draft=draft)
    if begun.problem is None or not begun.problem.strip():
        told = "say what the notebook is for, or give a --plan or a --template"
        raise BadArgument(told, argument="PROBLEM")
    created: dict[str, Any] = {
        "name": begun.problem,
        "language": begun.language,
        "description": begun.description,
        "mode": mode.value if mode is not None else None,
        "limits": limit_values(limit),
        "host": host_named(host),
        "template": begun.template,
        "parameters": begun.parameters,
    }
    if mode is not WorkMode.PRIVATE:
        settle_folder(allow=allow_folder)
    about = call_daemon(
        lambda caller: _created(caller, created, begun.outline), asks=True, doing="starting a kernel"
    )
    if not as_json:
        show_data(about, about["session_id"], as_json=False)
    _say_where(about)
    if run:
        _carry_out(about, as_json=as_json)
    show_data(about, "", as_json=as_json)


def _take_plan(begun: _Beginning, plan: Path | None, *, draft: bool) -> None:
    if plan is None:
        return
    if draft or begun.template is not None:
        raise BadArgument("the plan is in the file", argument="--draft" if draft else "--template")
    file = _from_file(plan, begun.language)
    begun.outline, begun.language = _outline_arguments(file.outline), file.language
    begun.problem = begun.problem or file.outline.problem
    begun.description = begun.description or file.outline.description or None


def _take_template(begun: _Beginning, name: str | None, pairs: list[str] | None, *, run: bool) -> None:
    begun.template, begun.parameters = name, _parameters(pairs)
    if name is None and pairs:
        raise BadArgument("parameters are a template's: give its name", argument="--parameter")
    if name is None:
        return
    if begun.outline is not None and not run:
        raise BadArgument("a template brings its own plan, or none", argument="--draft")
    found = _from_template(name, begun.parameters, run=run)
    begun.problem, begun.outline = begun.problem or found.title, None


def _parameters(pairs: list[str] | None) -> dict[str, str] | None:
    """``NAME=VALUE`` as texts: what type each is says the template."""
    found: dict[str, str] = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise BadArgument(f"{pair!r} is not NAME=VALUE", argument="--parameter")
        found[name.strip()] = value
    return found or None


def _carry_out(about: dict[str, Any], *, as_json: bool) -> None:
    from cellwright.cli._plans import carried_out, conclude  # a table that is redrawn takes a while

    found = call_daemon(lambda caller: carried_out(caller, "plan_run", about["session_id"]), doing=None)
    show_data({**about, "plan": found}, "", as_json=as_json)
    conclude(found, as_json=as_json)


def _from_file(path: Path, language: str | None) -> PlanFile:
    from cellwright.plans.plan_files import read_plan  # most commands do without the engine

    try:
        found = read_plan(path)
    except PlanError as error:
        show_error(error)
        raise Exit(ExitCode.BAD_USAGE) from None
    if language is not None and language != found.language:
        raise BadArgument(f"the plan's code is {found.language}", argument="--language")
    return found


def _from_template(name: str, values: dict[str, str] | None, *, run: bool) -> Template:
    """Look at the template here, so that what is wrong is said before a kernel starts."""
    from cellwright.plugins.registry import let_in  # as above
    from cellwright.templates import Catalogue  # as above

    let_in(Path(daemon_paths().storage))
    try:
        found = Catalogue.at(Path(daemon_paths().storage)).find(name)
        found.opening(values or {})
    except TemplateError as error:
        show_error(error)
        raise Exit(ExitCode.BAD_USAGE) from None
    if run and not found.is_plan:
        raise BadArgument(f"the template {name} is a notebook, and no plan", argument="--run")
    return found


def _outline_arguments(outline: Outline) -> dict[str, Any]:
    """An outline as ``plan_create`` takes it."""
    found: dict[str, Any] = {"todos": [_todo_arguments(todo) for todo in outline.todos]}
    if outline.validation is not None:
        found["validation"] = _todo_arguments(outline.validation)
    return found


def _todo_arguments(todo: TodoOutline) -> dict[str, Any]:
    from cellwright.plans.checks import check_text  # as above

    found = {
        "description": todo.description,
        "code": todo.code,
        "accept": [check_text(check) for check in todo.checks],
        "depends_on": list(todo.depends_on),
        "explanation": todo.explanation,
        "timeout_s": todo.timeout_s,
    }
    return {name: value for name, value in found.items() if value}


async def _created(caller: Caller, notebook: dict[str, Any], plan: dict[str, Any] | None) -> dict[str, Any]:
    about = await caller.data("notebook_create", **notebook)
    if plan is None:
        return about
    session = about["session_id"]
    try:
        planned = await caller.data("plan_create", session_id=session, problem=notebook["name"], **plan)
    except ToolRefused:
        # One that cannot have the plan it was made for is not left behind.
        await caller.data("notebook_delete", session_id=session, remove_file=True)
        raise
    return {**about, **planned}


def _say_where(about: dict[str, Any]) -> None:
    _note(f"notebook: {about.get('path', '')}")
    _note(
        f"code works in {about['cwd']} ({about['mode']}, tier {about.get('tier', '?')}) with "
        f"{about.get('interpreter', about['language'])}{_away(about)}"
    )
    if "host" not in about or about["host"] == "local":
        _say_how_files_are_named(about["cwd"])
    if "unseen" in about:
        _note(f"note: {about['unseen']}")
    if "packages_needed" in about:
        packages = " ".join(map(shlex.quote, about["packages_needed"]))
        _note(f"its code needs {', '.join(about['packages_needed'])}; what is missing is installed by")
        _note(f"  cellwright packages add {about['session_id']} {packages}")
    if "plan" in about:
        kind = "a plan drafted by rule; look it over" if about["plan"]["draft"] else "a plan"
        _note(
            f"{kind}; `cellwright plan status {about['session_id']}` shows its {about['plan']['total']} TODOs"
        )


def _say_how_files_are_named(cwd: str) -> None:
    """Where a person stands above the notebook's folder, as they do unless told otherwise, names are not as they type them."""
    here = Path.cwd()
    if here in Path(cwd).parents:
        _note(f"note: to its code a file of this folder is `{os.path.relpath(here, cwd)}/NAME`")


def _away(about: dict[str, Any]) -> str:
    return f" on {about['host']}" if about.get("host", "local") != "local" else ""


def _note(text: str) -> None:
    echo(text, err=True)
