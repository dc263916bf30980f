"""The languages that are registered: names, aliases, suffixes, and where notebooks and cells say theirs."""

from __future__ import annotations

import pytest

from cellwright.engine.kernel import named_language
from cellwright.notebook import CellAdded, Document, NotebookMetadataSet
from cellwright.notebook.languages import (
    Language,
    _table_of,
    canonical_language,
    cell_metadata,
    every_language,
    language_of_file,
    new_notebook_metadata,
)
from cellwright.plugins._entry_points import OURS, PluginEntry
from cellwright.plugins.registry import Registry, registry


def test_no_name_and_no_suffix_stands_for_two_languages() -> None:
    names = [name for language in every_language() for name in (language.name, *language.aliases)]
    suffixes = [suffix for language in every_language() for suffix in language.suffixes]
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
    assert (document.language_of(shell), shell.filename, shell.tags) == ("bash", "a.sh", ("t",))
    assert metadata["vscode"] == {"x": 1, "languageId": "shellscript"}
    assert metadata["kept"] == 2
    assert (document.language_of(other), other.filename) == ("typescript", None)


TAKES_PYTHON = Language("snake", (".py", ".snake"), ("py", "cobra"))
CALLED_OTHERWISE = Language("other", (".o",))
IS_AN_ALIAS = Language("py", (".p",))


def test_what_ours_are_called_stays_theirs_and_a_language_has_its_entry_points_name() -> None:
    here = "tests.unit.notebook.test_languages"
    ours = tuple(plugin.entry for plugin in registry().plugins if plugin.entry.kind == "languages")
    named = {"snake": "TAKES_PYTHON", "mine": "CALLED_OTHERWISE", "py": "IS_AN_ALIAS"}
    others = (PluginEntry("languages", name, f"{here}:{value}", OURS, "1") for name, value in named.items())
    there = Registry(entries=(*ours, *others))
    table = _table_of(there)
    assert table.by_name["cobra"] is table.by_suffix[".snake"] is TAKES_PYTHON
    assert table.by_name["py"].name == "python"
    assert table.by_suffix[".py"].name == "python"
    refused = {plugin.entry.name: plugin.refused for plugin in there.plugins if plugin.refused}
    assert refused == {
        "mine": "Its entry point is called 'mine', and its language 'other'",
        "py": "'py' is another name of python",
    }


@pytest.mark.parametrize(
    ("name", "suffixes", "aliases"),
    [("Upper", (".u",), ()), ("x", ("u",), ()), ("x", (), ()), ("x", (".u",), ("a b",))],
)
def test_what_is_no_language_is_refused_where_it_is_made(
    name: str, suffixes: tuple[str, ...], aliases: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError, match=r"is no (name|suffix|alias) of a language|needs a suffix"):
        Language(name, suffixes, aliases)


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
    assert document.language == language


@pytest.mark.parametrize(
    ("language", "name"),
    [("python", None), ("sql", "sql"), ("typescript", None), ("javascript", "javascript")],
)
def test_a_kernel_that_runs_since_an_earlier_version_is_told_the_names_that_it_knows(
    language: str, name: str | None
) -> None:
    assert named_language(language) == name


def test_a_new_notebooks_metadata_comes_in_the_order_that_jupyter_writes() -> None:
    assert list(new_notebook_metadata("python")) == ["kernelspec", "language_info"]
    assert new_notebook_metadata("sql") == {"language_info": {"name": "sql"}}
