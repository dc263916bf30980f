"""``cellwright templates`` and ``cellwright new --template``."""

from __future__ import annotations

import json

from tests.system.daemon.conftest import Place

MANIFEST = 'title = "Greeting"\ndescription = "Says hello."\nkeywords = ["salute"]\n'
PLAN = '# Greet\n\n## Parameters\n\n```python\nname = "you"  # Who\n```\n\n## Greet\n\n```python\nprint("hello", name)\n```\n\n- Accept: name == "007"\n'


def test_a_template_of_ones_own_is_found_shown_and_carried_out_with_a_value(shared: Place) -> None:
    folder = shared.storage / "templates" / "greeting"
    folder.mkdir(parents=True)
    (folder / "template.toml").write_text(MANIFEST)
    (folder / "plan.md").write_text(PLAN)
    listed = json.loads(shared.run("templates", "--json").stdout)["templates"]
    assert len(listed) == 10
    found = json.loads(shared.run("templates", "search", "salute", "--json").stdout)["templates"]
    assert [(one["name"], one["kind"], one["source"]) for one in found] == [("greeting", "plan", "added")]
    shown = shared.run("templates", "show", "greeting").stdout
    assert 'name       str   "you"    Who' in shown
    done = shared.run("new", "-t", "greeting", "-p", "name=007", "--run", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["plan"]["successful"]
    wrong = shared.run("new", "-t", "greeting", "-p", "nam=7")
    assert wrong.returncode == 2
    assert "Did you mean name?" in wrong.stderr
    assert shared.run("new", "-p", "name=7").returncode == 2


def test_a_gallery_is_indexed_searched_and_added_from(shared: Place) -> None:
    gallery = shared.root / "gallery"
    (gallery / "farewell").mkdir(parents=True)
    (gallery / "farewell" / "template.toml").write_text(MANIFEST.replace("hello", "goodbye"))
    (gallery / "farewell" / "plan.md").write_text(PLAN)
    indexed = shared.run("templates", "index", str(gallery))
    assert (indexed.returncode, indexed.stdout) == (0, "farewell\n")
    settings = shared.root / "work" / "cellwright.toml"
    settings.write_text(f'templates = ["{gallery}"]')
    from_project = json.loads(shared.run("templates", "search", "--json").stdout)
    settings.unlink()
    assert from_project["offers"] == []  # a project's file names no gallery
    there = Place(shared.root, shared.environment | {"CELLWRIGHT_TEMPLATES": json.dumps([str(gallery)])})
    offered = json.loads(there.run("templates", "search", "goodbye", "--json").stdout)["offers"]
    assert [(one["name"], one["gallery"]) for one in offered] == [("farewell", str(gallery))]
    added = there.run("templates", "add", "farewell")
    assert added.returncode == 0, added.stderr
    assert json.loads(shared.run("templates", "show", "farewell", "--json").stdout)["source"] == str(gallery)
    assert '"added": "farewell"' in shared.run("audit", "show", "--json").stdout
    (gallery / "farewell" / "plan.md").write_text(PLAN + "\n")
    changed = there.run("templates", "add", "farewell")
    assert changed.returncode == 1
    assert "farewell/plan.md" in changed.stderr
    assert shared.run("templates", "remove", "farewell").returncode == 0
    assert shared.run("templates", "remove", "csv-report").returncode == 2
