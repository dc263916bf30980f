"""Which templates there are, and what is wrong with those that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright.errors import TemplateError, UnknownTemplate
from cellwright.plugins._entry_points import OURS, PluginEntry
from cellwright.plugins.registry import Registry, registry
from cellwright.templates import Catalogue
from cellwright.templates.model import MOST_BYTES

MANIFEST = 'title = "Greeting"\ndescription = "Says\\nhello."\npackages = ["rich"]\nchecks = ["done"]\n'
NOTEBOOK = """\
<!-- cellwright:notebook {"version":1,"language":"python"} -->

<!-- cell:code {"tags":["parameters"]} -->

```python
name: str = "you"  # Who is greeted
```

<!-- cell:code -->

```python
done = bool(print(f"hello {name}") is None)
```
"""
PLAN = '# Greet\n\n## Parameters\n\n```python\nname = "you"\n```\n\n## Greet\n\n```python\nprint(name)\n```\n'


def folder(tmp_path: Path, name: str = "greeting", **files: str) -> Path:
    place = tmp_path / name
    place.mkdir()
    written = {"template.toml": MANIFEST, "notebook.md": NOTEBOOK}
    for filename, content in (written | {key.replace("_", "."): text for key, text in files.items()}).items():
        if content:
            (place / filename).write_text(content)
    return place


def test_a_folder_with_a_manifest_is_a_template_beside_ours(tmp_path: Path) -> None:
    folder(tmp_path, picture_svg="<svg xmlns='http://www.w3.org/2000/svg'/>", notes_txt="not read")
    (tmp_path / "nothing").mkdir()
    catalogue = Catalogue([("here", tmp_path)])
    assert {one.name for one in catalogue.templates()} > {"greeting", "csv-report"}
    found = catalogue.find("greeting")
    assert (found.title, found.description, found.source) == ("Greeting", "Says hello.", "here")
    assert found.picture is not None
    assert found.picture.mime == "image/svg+xml"
    opening = found.opening({"name": "Ann"})
    assert [source for _, source, _ in opening.cells] == [
        "name: str = 'Ann'  # Who is greeted",
        'done = bool(print(f"hello {name}") is None)',
        "## Checks\n\nThese must hold.",
        "assert (done), 'Not true: done'",
    ]
    assert opening.packages == ("rich",)
    assert opening.about == {"name": "greeting", "source": "here", "parameters": {"name": "Ann"}}


def test_a_plan_has_its_parameters_in_the_step_of_that_name(tmp_path: Path) -> None:
    manifest = 'title = "Greeting"\ndescription = "Says hello."'
    folder(tmp_path, notebook_md="", plan_md=PLAN, template_toml=manifest)
    found = Catalogue([("here", tmp_path)]).find("greeting")
    assert found.is_plan
    outline = found.opening({"name": "Ann"}).outline
    assert outline is not None
    assert [todo.code for todo in outline.todos] == ["name = 'Ann'", "print(name)"]


def test_templates_are_found_by_words_of_their_description_and_keywords() -> None:
    ours = Catalogue([])
    assert [one.name for one in ours.search("Deno service")] == ["typescript-service"]
    assert [one.name for one in ours.search("forecast")] == ["time-series"]
    assert ours.search("forecast deno") == []


def test_an_unknown_name_is_answered_with_the_nearest_and_all() -> None:
    with pytest.raises(UnknownTemplate) as caught:
        Catalogue([]).find("csv-reprot")
    assert str(caught.value.hint).startswith("Did you mean csv-report?")
    assert "time-series(path, time," in str(caught.value.hint)


def test_an_unknown_parameter_is_answered_with_the_nearest() -> None:
    with pytest.raises(TemplateError, match="Did you mean path"):
        Catalogue([]).find("csv-report").opening({"paht": "x"})


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"template_toml": "title = 1"}, "template.toml, title"),
        ({"template_toml": "title ="}, "no TOML"),
        ({"template_toml": MANIFEST + "run = true"}, "template.toml, run"),
        ({"template_toml": MANIFEST.replace('["done"]', '["file: ../x"]')}, "leads out of the working"),
        ({"plan_md": PLAN}, "2 notebooks and plans"),
        ({"notebook_md": ""}, "0 notebooks and plans"),
        ({"notebook_md": "", "plan_md": PLAN}, "a plan has its own"),
        ({"notebook_md": NOTEBOOK.replace("name: str", "%name")}, "cannot be parsed"),
        ({"picture_png": "x" * (MOST_BYTES + 1)}, "has more than"),
    ],
)
def test_a_template_that_cannot_be_read_is_named_and_leaves_the_others_alone(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    folder(tmp_path, **files)
    catalogue = Catalogue([("here", tmp_path)])
    with pytest.raises(TemplateError, match=message) as caught:
        catalogue.find("greeting")
    assert "greeting" in caught.value.message
    assert "greeting" not in {one.name for one in catalogue.templates()}
    assert catalogue.find("csv-report")


def test_folders_of_templates_come_from_plugins_and_ours_is_one_of_them(tmp_path: Path) -> None:
    assert registry().names("templates") == ("own",)
    folder(tmp_path)
    alone = Catalogue([("here", tmp_path)], plugins=Registry(entries=()))
    assert [one.name for one in alone.templates()] == ["greeting"]
    ours = PluginEntry("templates", "other-name", "cellwright.templates.own_folder:OWN", OURS, "1")
    both = Catalogue([("here", tmp_path)], plugins=Registry(entries=(ours,)))
    assert [one.source for one in both.templates()] == ["cellwright"] * 9 + ["here"]


def test_a_link_in_a_template_is_not_followed(tmp_path: Path) -> None:
    place = folder(tmp_path, notebook_md="")
    (tmp_path / "secret.md").write_text(NOTEBOOK)
    (place / "notebook.md").symlink_to(tmp_path / "secret.md")
    with pytest.raises(TemplateError, match=r"notebook\.md cannot be read"):
        Catalogue([("here", tmp_path)]).find("greeting")
