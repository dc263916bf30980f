"""``cellwright demo``: a plan with three mistakes is carried out, repaired in view, and its notebook proves itself.

With ``--agent`` the data agent answers a question instead; its model is a script (see ``_scripted_model``), so that it
needs no key. Both leave one folder in ``notebooks/``, with the data and what was made of it.
"""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio

from cellwright.cli._arguments import Exit, Option
from cellwright.cli._terminal import ExitCode, echo, fail
from cellwright.errors import CellwrightError

if TYPE_CHECKING:
    from cellwright import Execution, Session
    from cellwright.plans import Attempt, PlanRun, Todo
    from cellwright.verification import Verification

__all__ = ["demo"]

_SHIPPED = Path(__file__).with_name("demo")
_PLAN = "sales.plan.md"
_QUESTION = "Which region sold the most units?"


class MissingPackages(CellwrightError):
    """What the demo needs is not installed."""

    code = "missing_packages"


def demo(
    agent: Annotated[
        bool, Option("--agent", help="Show the data agent answer a question; its model is a script.")
    ] = False,
) -> None:
    """Show what Cellwright does, in a minute, in a folder below notebooks/. Needs no key."""
    try:
        if agent:
            _require("agent", ("keyring", "pydantic_ai"))
            _ask_the_agent(_new_folder())
            return
        _require("data", ("matplotlib", "pandas"))
        notebook, verified = anyio.run(_carry_out, _new_folder())
    except CellwrightError as error:
        fail(error)
    _show_page(notebook)
    raise Exit(ExitCode.OK if verified else ExitCode.RUN_FAILED)


def _require(extra: str, modules: Sequence[str]) -> None:
    if lacking := [name for name in modules if importlib.util.find_spec(name) is None]:
        raise MissingPackages(
            f"The demo needs {', '.join(lacking)}, which is not installed",
            hint=f"pip install 'cellwright[{extra}]', or uvx 'cellwright[{extra}]' demo",
        )


def _new_folder() -> Path:
    """A folder of its own for each time, with the plan and its data."""
    notebooks = Path.cwd() / "notebooks"
    notebooks.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="demo-", dir=notebooks))
    (folder / "data").mkdir()
    shutil.copy(_SHIPPED / "sales.csv", folder / "data")
    shutil.copy(_SHIPPED / _PLAN, folder)
    return folder


# With the data agent ------------------------------------------------------------------------------------------------


def _ask_the_agent(folder: Path) -> None:
    from cellwright.cli._ask import ask  # the other demo does without
    from cellwright.cli._scripted_model import serve_script

    data = folder / "data" / "sales.csv"
    with serve_script(str(data)) as address:
        _say(f'$ cellwright ask "{_QUESTION}" --data {data.relative_to(Path.cwd())}')
        _say("The model is a script in this process; all else is real.\n")
        ask(_QUESTION, data=[str(data)], model=[f"{address}#scripted"], pattern="react")


# With a plan --------------------------------------------------------------------------------------------------------


async def _carry_out(folder: Path) -> tuple[Path, bool]:
    """Do it all in an engine of its own; the notebook's file, and whether it is verified."""
    from cellwright import Settings, open_engine  # other commands do without the engine
    from cellwright.plans import Planner
    from cellwright.plans.plan_files import read_plan
    from cellwright.plans.reports import status_text, summary_text
    from cellwright.verification import verify

    outline = read_plan(folder / _PLAN).outline
    settings = Settings(preload=("pandas", "matplotlib.pyplot"))
    async with open_engine(settings, ephemeral=True) as engine:
        session = await engine.create(outline.problem, directory=folder)
        planner = Planner(engine)
        await planner.create(session, outline)
        _say(f"The plan of {(folder / _PLAN).relative_to(Path.cwd())}: {outline.problem}")
        run = await planner.start(session)
        await _follow(run)
        _say(status_text(run.plan))
        if run.plan.report is not None:
            _say(run.plan.report.text)
            return session.path, False
        _show_outputs(session, run)
        _say(summary_text(run.plan))
        _say("Now once more from the top, in a clean kernel, compared with what the notebook shows:")
        verification = await (await verify(engine, session)).wait()
        _show_verification(verification)
        _say(f"The notebook: {session.path.relative_to(Path.cwd())}")
        return session.path, verification.verified


async def _follow(run: PlanRun) -> None:
    """Tell of every mistake and every repair as it happens."""
    told: set[tuple[str, int]] = set()
    while not run.done:
        await run.changed()
        for todo in run.plan.steps:
            for number, attempt in enumerate(todo.attempts):
                if attempt.state != "running" and (todo.id, number) not in told:
                    told.add((todo.id, number))
                    _show_attempt(todo, attempt)


def _show_attempt(todo: Todo, attempt: Attempt) -> None:
    if attempt.fixer is not None:
        echo(f"    repaired: {attempt.reason}")
        for line in (attempt.diff or "").splitlines():
            echo(f"      {line}")
    if attempt.error_type is not None:
        echo(f"\n{todo.description}: {attempt.error_type}: {attempt.error}")


def _show_outputs(session: Session, run: PlanRun) -> None:
    """Show what the cells that went well put out."""
    for execution in run.executions:
        if execution.ok and execution.cell_id in session.document:
            _show(execution)


def _show(execution: Execution) -> None:
    echo()
    for line in execution.record.source.splitlines():
        echo(f"  > {line}")
    for output in execution.outputs:
        if "image/png" in output.get("data", {}):
            echo("    [a picture]")
    for line in execution.text.splitlines():
        echo(f"    {line}")


def _show_verification(verification: Verification) -> None:
    for checked in verification.checked:
        echo(f"  {'same' if checked.same else 'different'}  {checked.cell.id}")
    for finding in verification.findings:
        echo(f"  {finding.message}")
    certificate = verification.certificate
    if certificate is not None:
        inputs = ", ".join(certificate.inputs)
        echo(f"  verified: {certificate.verified}; Python {certificate.python}; it read {inputs}")


def _show_page(notebook: Path) -> None:
    """Print a link to the notebook's page, which signs in whoever opens it first."""
    if importlib.util.find_spec("jinja2") is None:
        _say("`pip install 'cellwright[web]'`, then `cellwright ui`, shows it as a page")
        return
    from cellwright.cli._serve import ui  # above there may be no page

    _say("Its page, for two minutes (`cellwright ui` makes another link):")
    ui(str(notebook), no_open=True)


def _say(text: str) -> None:
    echo(f"\n{text}")
