"""Changes that the journal may still refuse: a refusal takes back those, and nothing that happened meanwhile."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from cellwright.engine._notebook_file import NotebookFile
from cellwright.errors import NotebookError
from cellwright.notebook import CellAdded, Change, Document, OutputsSet, SourceChanged, read_notebook

SHOWN = [{"output_type": "stream", "name": "stdout", "text": "shown"}]


@pytest.fixture
def keeper(tmp_path: Path) -> NotebookFile:
    document = Document.new()
    document.apply(CellAdded("one", "code", "before", 0))
    return NotebookFile(tmp_path / "book.ipynb", document, base=document.copy(), file=None, seq=1)


def made(change: Change) -> partial[object]:
    return partial(Document.apply, change=change)


def test_a_refusal_takes_back_all_that_was_proposed_and_leaves_what_happened_meanwhile(
    keeper: NotebookFile,
) -> None:
    keeper.propose(made(SourceChanged("one", "edited")), 2)
    keeper.alter(made(OutputsSet("one", SHOWN, 1)))
    keeper.propose(made(CellAdded("two", "code", "added", 1)), 4)
    keeper.refuse()
    assert [cell.id for cell in keeper.document.cells] == ["one"]
    cell = keeper.document.cell("one")
    assert (cell.source, cell.version, list(cell.outputs)) == ("before", 1, SHOWN)


def test_what_was_accepted_outlives_the_refusal_of_what_came_after(keeper: NotebookFile) -> None:
    first = keeper.propose(made(SourceChanged("one", "edited")), 2)
    keeper.alter(made(OutputsSet("one", SHOWN, 1)))
    keeper.propose(made(SourceChanged("one", "edited again")), 4)
    keeper.accept(first)
    keeper.refuse()
    cell = keeper.document.cell("one")
    assert (cell.source, list(cell.outputs)) == ("edited", SHOWN)


def test_changes_of_which_one_does_not_fit_leave_the_document_as_it_was(keeper: NotebookFile) -> None:
    def alter(document: Document) -> None:
        document.apply(SourceChanged("one", "edited"))
        document.apply(SourceChanged("nowhere", "edited"))

    with pytest.raises(NotebookError):
        keeper.propose(alter, 2)
    assert keeper.document.cell("one").source == "before"


@pytest.mark.anyio
async def test_the_file_gets_what_may_still_be_refused_only_once_it_is_accepted(keeper: NotebookFile) -> None:
    proposal = keeper.propose(made(SourceChanged("one", "edited")), 2)
    keeper.dirty = True
    assert await keeper.save(lambda: 2)
    assert read_notebook(keeper.path)[0].cell("one").source == "before"
    assert keeper.base_row("s")[1][1] == 1, "a document rebuilt from here takes in the change"
    keeper.accept(proposal)
    assert keeper.dirty
    assert await keeper.save(lambda: 2)
    assert read_notebook(keeper.path)[0].cell("one").source == "edited"
    assert keeper.base_row("s")[1][1] == 2
