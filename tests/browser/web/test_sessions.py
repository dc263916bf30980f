"""The first page: what there is, how it stands, and what an owner may do about it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from cellwright.templates.own_folder import OWN
from cellwright.web._sessions import Choice, SessionRow, chosen, counted
from tests.browser.web.conftest import Looker, Served

ROW = SessionRow(
    id="s-1",
    title="Apples",
    name="apples",
    language="python",
    state="idle",
    running=0,
    since=None,
    host="local",
    tier="A",
    memory=None,
    client="claude-code",
    held_by=None,
    created_at=0.0,
    active_at=0.0,
    reason=None,
    branch_of=None,
)
ROWS = [
    ROW,
    replace(ROW, id="s-2", title="Pears", name="pears", state="running", host="slurm:gpu"),
    replace(ROW, id="s-3", title="Plums", name="plums", state="suspended", client=None, held_by="ann"),
]


@pytest.mark.parametrize(
    ("choice", "found"),
    [
        (Choice(), ["s-1", "s-2", "s-3"]),
        (Choice(state="running"), ["s-2"]),
        (Choice(state="held"), ["s-3"]),
        (Choice(text="Claude"), ["s-1", "s-2"]),
        (Choice(text="claude GPU"), ["s-2"]),
        (Choice(state="idle", text="pears"), []),
        (Choice(sort="-title"), ["s-3", "s-2", "s-1"]),
        (Choice(sort="state"), ["s-2", "s-1", "s-3"]),
        (Choice(sort="no such column"), ["s-1", "s-2", "s-3"]),
    ],
)
def test_sessions_are_narrowed_by_state_and_words_and_sorted(choice: Choice, found: list[str]) -> None:
    assert [row.id for row in chosen(ROWS, choice)] == found


def test_sessions_are_counted_by_state() -> None:
    assert counted(ROWS) == {"running": 1, "idle": 1, "suspended": 1}


def test_a_session_that_an_agent_makes_appears_while_the_page_is_open(looker: Looker, served: Served) -> None:
    page = looker.go("/")
    session_id = served.notebook("Apples and pears")
    row = page.locator(f"#session-{session_id}")
    expect(row).to_contain_text("apples_and_pears")
    expect(row).to_contain_text("idle")
    expect(row.locator("td.number")).to_contain_text("MB")
    hosts = page.locator("#hosts")
    hosts.scroll_into_view_if_needed()
    expect(hosts).to_contain_text("this machine")


def test_an_owner_finds_suspends_renames_copies_and_deletes_a_session_and_undoes_that(
    looker: Looker, served: Served
) -> None:
    session_id = served.notebook("Quinces", "jelly = 3")
    page = looker.go("/")
    page.get_by_role("searchbox", name="Search").fill("quinces")
    page.get_by_role("button", name="Show").click()
    rows = page.locator("tr[id^=session-]")
    expect(rows).to_have_count(1)
    row = page.locator(f"#session-{session_id}")
    row.get_by_label("More for Quinces").click()
    row.get_by_role("button", name="Suspend").click()
    expect(row).to_contain_text("owner suspended it")
    row.get_by_label("More for Quinces").click()
    row.get_by_role("button", name="Resume").click()
    expect(row.locator(".state")).to_have_text("idle")
    row.get_by_label("More for Quinces").click()
    row.get_by_label("Name of Quinces").fill("Quinces and pears")
    row.get_by_role("button", name="Rename").click()
    expect(row.get_by_role("link")).to_have_text("Quinces and pears")
    expect(row).to_contain_text("quinces_and_pears.ipynb")
    row.get_by_label("More for Quinces and pears").click()
    row.get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
    assert session_id not in sessions_of(served)
    page.get_by_role("button", name="Undo deleting Quinces and pears").click()
    expect(row).to_contain_text("idle")
    row.get_by_label("More for Quinces and pears").click()
    row.get_by_role("button", name="Duplicate").click()
    expect(page.locator("#title h1")).to_have_text("Quinces and pears copy")
    page.get_by_role("link", name="Sessions").click()
    page.get_by_role("searchbox", name="Search").fill("quinces")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name="Notebook", exact=True).press("Enter")
    expect(page.get_by_role("columnheader", name="Notebook")).to_have_attribute("aria-sort", "ascending")
    expect(page.get_by_role("link", name="Notebook", exact=True)).to_be_focused()
    expect(rows.first.get_by_role("rowheader")).to_contain_text("Quinces and pears")
    page.get_by_role("link", name="Notebook", exact=True).press("Enter")
    expect(rows.first.get_by_role("rowheader")).to_contain_text("Quinces and pears copy")


def test_a_person_begins_with_a_template_and_brings_notebooks_and_data(
    looker: Looker, served: Served, tmp_path: Path
) -> None:
    page = looker.go("/")
    page.locator("summary", has_text="New notebook").click()
    page.get_by_role("button", name="Create").click()
    expect(page.locator("article.cell.code")).to_have_count(1)  # to type into, with nothing else clicked
    looker.go("/")
    page.locator("summary", has_text="New notebook").click()
    page.get_by_label("Name", exact=True).fill("Sales of spring")
    pictures = page.locator(".templates img")
    expect(pictures).to_have_count(9)
    page.get_by_role("link", name="Model comparison").click()
    expect(page.locator(".about-template img")).to_have_js_property("naturalWidth", 320)
    expect(page.get_by_label("Name", exact=True)).to_have_value("Sales of spring")  # what was written stays
    page.get_by_label("folds").fill("many")
    looker.overlooked = "409"
    page.get_by_role("button", name="Create").click()
    looker.hears("Give it as folds=5")
    page.get_by_label("folds").fill("3")
    page.get_by_label("task").select_option("regression")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("#title h1")).to_have_text("Sales of spring")
    begun = page.locator("article.cell.code").first
    expect(begun).to_contain_text("folds: int = 3")
    expect(begun).to_contain_text("'regression'")
    begun_in = page.url.rpartition("/")[2]
    assert served.agent.call("execution_list", session_id=begun_in)["executions"] == []
    data = tmp_path / "spring.csv"
    data.write_text("month,units\nApril,3\n")
    looker.go("/")
    for name in ("spring.csv", "spring_2.csv"):
        page.get_by_label("Open notebooks and data files").set_input_files(data)
        looker.hears(f"{name} is in the data directory")
    # As a person drops it, whatever it is.
    drop(page, ".hidden.csv", "x")
    looker.hears("begins with a dot")
    brought = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    drop(page, "brought.ipynb", brought)
    page.wait_for_url("**/sessions/s-*")
    expect(page.locator("article.cell")).to_have_count(0)
    drop(page, "beside.csv", "a\n1\n")
    looker.overlooked = "409"
    page.get_by_text("Files", exact=True).click()
    expect(page.locator("#panel-files-content")).to_contain_text("beside.csv")


def test_an_owner_adds_a_template_of_a_gallery_and_begins_with_it(looker: Looker, served: Served) -> None:
    offered = served.place.root / "gallery" / "greeting"
    offered.mkdir()
    (offered / "template.toml").write_text('title = "Greeting"\ndescription = "Says hello."\n')
    (offered / "notebook.md").write_text("```python\nprint('hello')\n```\n")
    shutil.copy(OWN / "api-client" / "picture.svg", offered)
    page = looker.go("/")
    page.locator("summary", has_text="New notebook").click()
    page.get_by_label("A notebook of the project").scroll_into_view_if_needed()
    expect(page.locator("#offer-1 img")).to_have_js_property("naturalWidth", 320)
    page.get_by_role("button", name="Add Greeting").click()
    looker.hears("Greeting can be begun with now")
    expect(page.locator("#offer-1")).to_have_count(0)
    page.get_by_role("link", name="Greeting").click()
    expect(page.locator(".about-template")).to_contain_text(str(offered.parent))
    page.get_by_role("button", name="Create").click()
    expect(page.locator("article.cell.code")).to_contain_text("hello")
    shutil.rmtree(offered)
    assert served.place.run("templates", "remove", "greeting").returncode == 0


def sessions_of(served: Served) -> list[str]:
    return [one["session_id"] for one in served.agent.call("notebook_list", filter="all")["sessions"]]


def drop(page: Page, name: str, content: str) -> None:
    """Let a file fall on the page, as the browser tells of it."""
    page.evaluate(
        """([name, content]) => {
          const carried = new DataTransfer();
          carried.items.add(new File([content], name));
          for (const kind of ["dragenter", "dragover", "drop"])
            document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: carried, bubbles: true, cancelable: true }));
        }""",
        [name, content],
    )
