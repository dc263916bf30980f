"""The Srcbooks that Srcbook ships become notebooks, and come back as they were."""

from __future__ import annotations

from typing import Any

import pytest

from cellwright.formats import export, read
from tests.support.corpus.fetching import CorpusUnavailableError
from tests.support.corpus.srcbooks import fetch_srcbooks
from tests.waiting import scaled

pytestmark = pytest.mark.timeout(scaled(180))  # the first test also downloads
NAMES = ("getting-started.src.md", "langgraph-web-agent.src.md", "websockets.src.md")


@pytest.fixture(scope="module")
def srcbooks(require: Any) -> dict[str, bytes]:
    try:
        return fetch_srcbooks()
    except CorpusUnavailableError as error:
        require("the corpus of Srcbooks", False, f"reach the npm registry once. {error}")
        raise


def test_these_are_all_that_there_are(srcbooks: dict[str, bytes]) -> None:
    assert tuple(sorted(srcbooks)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_srcbook_comes_back_byte_for_byte(srcbooks: dict[str, bytes], name: str) -> None:
    imported = read(srcbooks[name], name=name)
    assert len(imported.document) > 8
    written = export(imported.document, name="unused", format="src.md")
    assert written.content == srcbooks[name]
    assert (imported.notices, written.notices) == ((), ())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["ipynb", "json", "markdown"])
def test_a_srcbook_survives_every_format_on_its_way_back(
    srcbooks: dict[str, bytes], name: str, form: str
) -> None:
    document = read(srcbooks[name], name=name).document
    between = export(document, name="n", format=form)
    again = read(between.content, name=f"x{between.suffix}", format=form).document
    cells = [(cell.kind, cell.source, cell.language) for cell in again.cells]
    assert cells == [(cell.kind, cell.source, cell.language) for cell in document.cells]
    assert export(again, name="unused", format="src.md").content == srcbooks[name]
