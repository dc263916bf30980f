"""Files that anybody may have written: notebooks, manifests, plans. They are read, or refused by their own error."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from hypothesis import strategies as st

from cellwright.charts import read_manifest
from cellwright.engine._executions import text_of
from cellwright.errors import NotebookFormatError, PlanFileError, TooManyCells
from cellwright.formats._registry import export, read
from cellwright.mcp.outputs import parts_of
from cellwright.mcp.tools.read import outline
from cellwright.notebook import Document, OutputsSet, SourceChanged, compare_outputs
from cellwright.notebook.document import comments_of
from cellwright.plans.plan_files import PlanFileKind, parse_plan, read_plan
from cellwright.verification._certificates import certificate_state
from cellwright.verification._findings import find_problems
from cellwright.verification._rehearsal import time_for, was_state
from cellwright.web._outputs import Outputs
from cellwright.web.panels.history import shown_outputs
from tests.support.fuzzing import each_effort, mutated_bytes, mutated_json, seeds, try_all

EXAMPLES = Path(__file__).parents[3] / "examples"
PLANS: dict[PlanFileKind, str] = {
    "toml": (EXAMPLES / "pendulum.plan.toml").read_text(encoding="utf-8"),
    "markdown": (EXAMPLES / "sales.plan.md").read_text(encoding="utf-8"),
}
BOOKS = {
    "book.md": seeds("book.md").encode(),
    "book.src.md": seeds("book.src.md").encode(),
    "book.py": seeds("book.py.txt").encode(),
    "book.myst": seeds("book.myst").encode(),
}


def look_through(document: Document) -> None:
    """Do with a notebook what everybody does who shows, checks or changes one."""
    for cell in document.cells:
        comments_of(cell)
        parts_of(cell.outputs)
        shown_outputs(cell.outputs)
        Outputs().html(f"/sessions/s/cells/{cell.id}", cell.outputs, growing=False)
        text_of(cell.outputs)
        compare_outputs(cell.outputs, cell.outputs)
        was_state(cell)
        time_for(cell, 1.0)
    certificate_state(document)
    find_problems(document)
    outline(document.cells, dict.fromkeys((cell.id for cell in document.cells), "ok"), max_tokens=500)
    for changed in document.cells:
        if changed.kind == "code":
            document.apply(OutputsSet(changed.id, [dict(output) for output in changed.outputs], None))
        document.apply(SourceChanged(changed.id, "changed"))
    document.to_bytes()
    for form in ("json", "markdown", "src.md"):
        with suppress(NotebookFormatError):
            export(document, name="any", format=form)


@each_effort
def test_any_file_is_a_notebook_or_is_refused_as_none(effort: float) -> None:
    def check(content: bytes) -> None:
        try:
            document = Document.from_bytes(content, name="any.ipynb")
        except NotebookFormatError:
            return
        again = Document.from_bytes(document.to_bytes(), name="again.ipynb")
        assert [cell.source for cell in again.cells] == [cell.source for cell in document.cells]
        look_through(document)

    try_all(check, mutated_json(seeds("notebooks.json")), examples=250, effort=effort)


@each_effort
def test_any_file_of_any_format_is_a_notebook_or_is_refused_as_none(effort: float) -> None:
    def check(name: str, content: bytes) -> None:
        try:
            read(content, name=name, max_cells=1_000)
        except (NotebookFormatError, TooManyCells):
            return

    books = st.sampled_from(list(BOOKS))
    files = books.flatmap(lambda name: st.tuples(st.just(name), mutated_bytes([BOOKS[name]])))
    json_files = mutated_json(seeds("notebooks.json")).map(lambda content: ("book.json", content))
    try_all(lambda file: check(*file), files | json_files, examples=150, effort=effort)


@each_effort
def test_any_manifest_is_read_with_its_problems(effort: float) -> None:
    def check(content: bytes) -> None:
        found = read_manifest(content)
        assert found.outputs or found.problems or json.loads(content)["outputs"] == []
        assert all(str(problem) for problem in found.problems)

    try_all(check, mutated_json(seeds("manifests.json")), examples=250, effort=effort)


@each_effort
def test_any_text_is_a_plan_or_is_refused_as_none(effort: float, tmp_path: Path) -> None:
    def check(kind: PlanFileKind, content: bytes) -> None:
        path = tmp_path / f"any.plan.{'toml' if kind == 'toml' else 'md'}"
        path.write_bytes(content)
        for attempt in (
            lambda: read_plan(path),
            lambda: parse_plan(content.decode("utf-8", "surrogateescape"), kind=kind, name="any"),
        ):
            try:
                attempt()
            except PlanFileError:
                continue

    kinds = st.sampled_from(sorted(PLANS))
    plans = kinds.flatmap(lambda kind: st.tuples(st.just(kind), mutated_bytes([PLANS[kind].encode()])))
    try_all(lambda plan: check(*plan), plans, examples=200, effort=effort)
