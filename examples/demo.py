"""Shows the main job in a few seconds: a plan with three mistakes is carried out, mended in view, and proves itself.

Leaves one folder in ``notebooks/``: a notebook that opens in JupyterLab and VS Code, the data it read, and what it made.
Ends with a link to the page that shows it, served by the daemon, which ends by itself when nobody needs it any more.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio

from cellwright import Execution, Session, Settings, open_engine
from cellwright.plans import Attempt, Planner, PlanRun, Todo
from cellwright.plans.plan_files import read_plan
from cellwright.plans.reports import status_text, summary_text
from cellwright.verification import Verification, verify

HERE = Path(__file__).parent


async def main() -> Path:
    """Do it all; the notebook's file."""
    folder = new_folder()
    outline = read_plan(HERE / "sales.plan.md").outline
    settings = Settings(preload=("pandas", "matplotlib.pyplot"))
    async with open_engine(settings, ephemeral=True) as engine:
        session = await engine.create(outline.problem, directory=folder)
        planner = Planner(engine)
        await planner.create(session, outline)
        say(f"The plan of examples/sales.plan.md: {outline.problem}")
        run = await planner.start(session)
        await follow(run)
        say(status_text(run.plan))
        if run.plan.report is not None:
            raise SystemExit(run.plan.report.text)
        show_outputs(session, run)
        say(summary_text(run.plan))
        say("Now once more from the top, in a clean kernel, compared with what the notebook shows:")
        verification = await (await verify(engine, session)).wait()
        show_verification(verification)
        say(f"The notebook: {session.path.relative_to(Path.cwd())}")
        if not verification.verified:
            raise SystemExit(1)
        return session.path


def show_page(notebook: Path) -> None:
    """Print a link to the notebook's page, which signs in whoever opens it first."""
    command = "from cellwright.cli import main; main()"
    say("Its page, for two minutes (`cellwright ui` makes another link):")
    subprocess.run([sys.executable, "-c", command, "ui", "--no-open", str(notebook)], check=True)


def new_folder() -> Path:
    """A folder of its own for each time, with the data beside the notebook."""
    notebooks = Path.cwd() / "notebooks"
    notebooks.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="demo-", dir=notebooks))
    shutil.copytree(HERE / "data", folder / "data")
    return folder


async def follow(run: PlanRun) -> None:
    """Tell of every mistake and every repair as it happens."""
    told: set[tuple[str, int]] = set()
    while not run.done:
        await run.changed()
        for todo in run.plan.steps:
            for number, attempt in enumerate(todo.attempts):
                if attempt.state != "running" and (todo.id, number) not in told:
                    told.add((todo.id, number))
                    show_attempt(todo, attempt)


def show_attempt(todo: Todo, attempt: Attempt) -> None:
    if attempt.fixer is not None:
        print(f"    mended: {attempt.reason}")
        for line in (attempt.diff or "").splitlines():
            print(f"      {line}")
    if attempt.error_type is not None:
        print(f"\n{todo.description}: {attempt.error_type}: {attempt.error}")


def show_outputs(session: Session, run: PlanRun) -> None:
    """What the cells that went well put out."""
    for execution in run.executions:
        if execution.ok and execution.cell_id in session.document:
            show(execution)


def show(execution: Execution) -> None:
    print()
    for line in execution.record.source.splitlines():
        print(f"  > {line}")
    for output in execution.outputs:
        if "image/png" in output.get("data", {}):
            print("    [a picture]")
    for line in execution.text.splitlines():
        print(f"    {line}")


def show_verification(verification: Verification) -> None:
    for checked in verification.checked:
        print(f"  {'same' if checked.same else 'different'}  {checked.cell.id}")
    for finding in verification.findings:
        print(f"  {finding.message}")
    certificate = verification.certificate
    if certificate is not None:
        inputs = ", ".join(certificate.inputs)
        print(f"  verified: {certificate.verified}; Python {certificate.python}; it read {inputs}")


def say(text: str) -> None:
    print(f"\n{text}", flush=True)


show_page(anyio.run(main))
