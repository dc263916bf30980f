"""The command line: what to run, with whom, and where the figures go. Decides nothing else."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import anyio

from cellwright import CellwrightError, Settings, open_engine
from datatasks.contenders import ipykernel, ours, plain_python
from datatasks.references import JUDGE, run_references
from datatasks.reports import (
    OURS,
    PEER,
    asked_as_json,
    asked_as_table,
    references_as_json,
    references_as_table,
)
from datatasks.sources import BUILTIN, SourceUnusable, tasks_from
from datatasks.tasks import TaskSet

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run the harness; 0 where it ran, 2 where there was nothing to run."""
    options = _parser().parse_args(arguments)
    # Every process started from here on compiles its imports once, on all sides.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="cellwright-tasks-") as scratch:
        directory = Path(scratch).resolve()
        os.environ["IPYTHONDIR"] = str(directory / "ipython")
        try:
            tasks = tasks_from(options.tasks, directory / "data")
        except SourceUnusable as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        for note in tasks.notes:
            _say(note)
        try:
            return anyio.run(_run, tasks.first(options.limit), options, directory)
        except CellwrightError as error:
            print(
                f"error: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""), file=sys.stderr
            )
            return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python benchmarks/agent", description="Runs data tasks.")
    parser.add_argument(
        "--tasks", default=BUILTIN, metavar="DIR|URL",
        help="a set of tasks: a directory, or an address that git can clone; our own where it is not given",
    )  # fmt: skip
    parser.add_argument("--limit", type=int, metavar="N", help="so many tasks, taken evenly from the whole")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the figures as JSON as well")
    _for_models(parser.add_argument_group("with a model"))
    _for_solutions(parser.add_argument_group("without a model: the sets' own solutions"))
    return parser


def _for_models(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--model", metavar="NAME", help="whom to ask, as for `cellwright ask`")
    group.add_argument(
        "--patterns",
        default="",
        metavar="NAMES",
        help="with commas between, or `all`; else the agent chooses",
    )
    group.add_argument(
        "--parallel", type=int, default=1, metavar="N", help="so many questions at a time; 1 where not given"
    )
    group.add_argument(
        "--budget", default="", help="for each question, such as '50k tokens, 0.20 usd, 300 s'"
    )
    group.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="a line for each question; a run that is begun again goes on from it",
    )


def _for_solutions(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--rounds", type=int, default=1, metavar="N", help="turns, of which the fastest counts"
    )
    group.add_argument(
        "--preload",
        default="",
        metavar="MODULES",
        help="what our fork server imports first, with commas between",
    )


async def _run(tasks: TaskSet, options: argparse.Namespace, directory: Path) -> int:
    if options.model is None:
        return await _references(tasks, options, directory)
    # What a model needs is in an extra; without one, nothing of it is.
    from datatasks.inquiring import inquire

    asked = await inquire(tasks, options, directory, _say)
    if not asked:
        _say("no question was settled")
        return 2
    print(asked_as_table(asked))
    if options.json:
        options.json.write_text(json.dumps(asked_as_json(asked), indent=2) + "\n")
    return 0


async def _references(tasks: TaskSet, options: argparse.Namespace, directory: Path) -> int:
    preload = tuple(filter(None, options.preload.split(",")))
    settings = Settings.model_validate({"root": directory, "preload": preload})
    async with open_engine(settings, ephemeral=True) as engine:
        contenders = {JUDGE: plain_python, PEER: ipykernel, OURS: ours(engine)}
        result = await run_references(tasks, contenders, directory / "work", rounds=options.rounds, say=_say)
    for line in (line for one in result.tried[OURS] for line in one.failures):
        _say(line[:300])
    print(references_as_table(result))
    if options.json:
        options.json.write_text(json.dumps(references_as_json(tasks.name, result), indent=2) + "\n")
    if not result.tried[OURS]:
        _say("no task of this set can be run without a model")
        return 2
    return 0


def _say(text: str) -> None:
    print(f"   {text}", file=sys.stderr, flush=True)
