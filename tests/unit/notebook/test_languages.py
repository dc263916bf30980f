"""One table of languages: names, aliases, suffixes, and where notebooks and cells say theirs."""

from __future__ import annotations

import pytest

from cellwright.notebook import CellAdded, Document, NotebookMetadataSet
from cellwright.notebook.languages import (
    LANGUAGES,
    canonical_language,
    cell_language,
    cell_metadata,
    language_of_file,
    notebook_language,
)


def test_no_name_and_no_suffix_stands_for_two_languages() -> None:
    names = [name for language in LANGUAGES for name in (language.name, *language.aliases)]
    suffixes = [suffix for language in LANGUAGES for suffix in language.suffixes]
    assert len(set(names)) == len(names)
    assert len(set(suffixes)) == len(suffixes)


@pytest.mark.parametrize(
    ("said", "meant"), [("TS", "typescript"), (" py ", "python"), ("IR", "r"), ("Klingon", "klingon")]
)
def test_a_language_is_known_by_any_of_its_names(said: str, meant: str) -> None:
    assert canonical_language(said) == meant


@pytest.mark.parametrize(
    ("name", "language"), [("a.mts", "typescript"), ("b/c.R", "r"), ("x.cob", None), ("py", None)]
)
def test_a_file_tells_its_language_by_its_suffix(name: str, language: str | None) -> None:
    assert language_of_file(name) == language


def test_a_cell_says_its_language_in_the_words_of_editors_too() -> None:
    document = Document.new(language="typescript")
    metadata = cell_metadata(
        language="bash", filename="a.sh", tags=["t"], also={"vscode": {"x": 1}, "kept": 2}
    )
    document.apply(CellAdded("a", "code", "ls", 0, metadata))
    document.apply(CellAdded("b", "code", "1", 1, {}))
    shell, other = document.cells
    assert (cell_language(document, shell), shell.filename, shell.tags) == ("bash", "a.sh", ("t",))
    assert metadata["vscode"] == {"x": 1, "languageId": "shellscript"}
    assert metadata["kept"] == 2
    assert (cell_language(document, other), other.filename) == ("typescript", None)


@pytest.mark.parametrize(
    ("metadata", "language"),
    [
        ({}, "python"),
        ({"kernelspec": None, "language_info": {"name": "R"}}, "r"),
        ({"kernelspec": {"language": "ts"}, "language_info": {"name": "R"}}, "typescript"),
        ({"kernelspec": {"language": 7}, "language_info": []}, "python"),
    ],
)
def test_a_notebook_says_its_language_in_its_metadata(metadata: dict[str, object], language: str) -> None:
    document = Document.new()
    document.apply(NotebookMetadataSet(metadata))
    assert notebook_language(document) == language
