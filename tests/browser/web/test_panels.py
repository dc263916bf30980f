"""What stands beside a notebook: variables, files, checkpoints, branches, history, network and environment."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.web.conftest import Looker, Served, assert_accessible
from tests.matrix import first_of

HOSTILE = "<img src=x onerror=alert(1)>.txt"
PIXEL = "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da63f8cfc0500f0003860180245c5cc10000000049454e44ae426082"


def opened(page: Page, name: str) -> Locator:
    """A panel, opened as a person does who has no mouse."""
    panel = page.locator(f"#panel-{name}")
    panel.locator("summary").first.press("Enter")
    return panel


def test_a_click_rolls_back_and_variables_cells_and_history_follow(looker: Looker, served: Served) -> None:
    session_id = served.notebook("Rolling", "x = 1")
    page = looker.go(f"/sessions/{session_id}")
    variables, timeline = opened(page, "variables"), opened(page, "checkpoints")
    expect(variables.get_by_role("row", name="x int")).to_contain_text("1")

    timeline.get_by_label("Name of the checkpoint").fill("early")
    timeline.get_by_role("button", name="Take one now").click()
    expect(timeline.get_by_text("early", exact=True)).to_be_visible()
    served.add(session_id, "x = 2; y = [1, 2, 3]")
    expect(variables.get_by_role("row", name="y list")).to_contain_text("3")
    expect(timeline).to_contain_text("Since then: cell 3")

    asked: list[str] = []
    page.once("dialog", lambda dialog: (asked.append(dialog.message), dialog.accept()))
    timeline.get_by_role("button", name="Roll back to early").click()
    looker.hears("Rolled back to early. Stale now: cell 3.")
    assert asked[0].startswith("Roll back to early? What cell 3 did since then is undone")
    expect(variables.get_by_role("row", name="y list")).to_have_count(0)
    expect(variables.get_by_role("row", name="x int")).to_contain_text("1")
    expect(page.locator("article.cell").nth(2).locator(".state")).to_contain_text("stale")
    expect(opened(page, "history").locator("li.undone")).to_contain_text("cell 3")

    page.once("dialog", lambda dialog: dialog.accept())
    timeline.get_by_role("button", name="Drop early").click()
    expect(timeline).to_contain_text("None is kept")


def test_a_busy_or_missing_kernel_is_said_and_not_started(looker: Looker, served: Served) -> None:
    session_id = served.notebook("Busy", "import time, threading; go = threading.Event()")
    page = looker.go(f"/sessions/{session_id}")
    variables = opened(page, "variables")
    expect(variables).to_contain_text("threading")
    cell = served.add(session_id, "go.wait()", run=False)
    served.agent.begin("cell_execute", session_id=session_id, cell_id=cell)
    expect(variables).to_contain_text("A cell is running")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(variables).to_contain_text("threading")
    looker.go("/")
    page.locator(f"#session-{session_id}").get_by_label("More for Busy").click()
    page.locator(f"#session-{session_id}").get_by_role("button", name="Suspend").click()
    expect(page.locator(f"#session-{session_id}")).to_contain_text("suspended")
    looker.go(f"/sessions/{session_id}")
    expect(opened(page, "variables")).to_contain_text("There is no kernel")
    looker.go("/")
    expect(page.locator(f"#session-{session_id}")).to_contain_text("suspended")


def test_a_branch_is_grown_compared_side_by_side_and_adopted(
    looker: Looker, served: Served, axe: str
) -> None:
    session_id = served.notebook("Paths", "x = 1", "print('x is', x)")
    page = looker.go(f"/sessions/{session_id}")
    timeline = opened(page, "checkpoints")
    timeline.get_by_role("button", name="Take one now").click()
    timeline.get_by_role("button", name="Branch from").click()
    family = opened(page, "branches")
    link = family.get_by_role("listitem").filter(has_text="branch of it").get_by_role("link").first
    branch_id = (link.get_attribute("href") or "").rpartition("/")[2]

    changed = page.locator("article.cell").nth(2).get_attribute("id").removeprefix("cell-")
    served.agent.call("cell_update", session_id=branch_id, cell_id=changed, content="x = 5\nprint('x is', x)")
    served.tell("cell_execute", session_id=branch_id, cell_id=changed)
    family.get_by_role("link", name="Compare with").click()
    cell = page.get_by_role("region", name="code cell 3, source and outputs differ")
    expect(cell.locator("ins").first).to_have_text("x = 5")
    expect(cell).to_contain_text("1 became 5")
    expect(page.get_by_role("row", name="x 1 5")).to_be_visible()
    assert_accessible(page, axe)

    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Adopt").click()
    page.wait_for_url(f"{looker.url}/sessions/{session_id}")
    expect(page.locator("article.cell").nth(2)).to_contain_text("x = 5")
    expect(opened(page, "variables").get_by_role("row", name="x int")).to_contain_text("5")


def test_files_are_previewed_and_downloaded_whatever_they_are_called(looker: Looker, served: Served) -> None:
    session_id = served.notebook(
        "Hostile files",
        f"import os; os.mkdir('deep'); open({HOSTILE!r}, 'w').write('<script>document.title = 1</script>')",
        f"open('deep/dot.png', 'wb').write(bytes.fromhex('{PIXEL}'))",
        "open('table.csv', 'w').write('fruit,count\\n' + ''.join(f'apple{n},{n}\\n' for n in range(50)))",
    )
    page = looker.go(f"/sessions/{session_id}")
    files = opened(page, "files")
    files.get_by_text(HOSTILE, exact=True).click()
    preview = files.get_by_role("region", name=f"Content of {HOSTILE}")
    expect(preview).to_contain_text("<script>document.title = 1</script>")
    with page.expect_download() as waiting:
        files.get_by_role("link", name=f"Download {HOSTILE}").click()
    assert waiting.value.path().read_text() == "<script>document.title = 1</script>"

    files.get_by_text("deep/", exact=True).click()
    files.get_by_text("dot.png", exact=True).click()
    picture = files.get_by_role("img", name="dot.png")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 1

    files.get_by_text("table.csv", exact=True).click()
    table = files.get_by_role("region", name="Content of table.csv")
    expect(table.first).to_contain_text("apple1")
    files.get_by_text("More of 50").click()
    expect(table.nth(1)).to_contain_text("apple25")

    # What is open stays open when a cell writes another file.
    served.add(session_id, "open('later.txt', 'w').write('late')")
    expect(files.get_by_text("later.txt", exact=True)).to_be_visible()
    expect(table.nth(1)).to_contain_text("apple25")
    expect(page).to_have_title(re.compile("Cellwright"))


def test_no_address_of_a_file_leads_out_of_its_place(looker: Looker, served: Served) -> None:
    session_id = served.notebook(
        "Inside", "import os; os.symlink('/etc/passwd', 'link.txt'); open('own.svg', 'w').write('<svg/>')"
    )
    base = f"{looker.url}/sessions/{session_id}/files/content"
    for path in ("../../etc/passwd", "/etc/passwd", "link.txt", "deep/../../x", "%2e%2e/x", "\0"):
        answer = looker.page.request.get(base, params={"path": path})
        assert answer.status == 409, path
        assert "root:" not in answer.text()
    for shown in ({}, {"show": ""}):
        answer = looker.page.request.get(base, params={"path": "own.svg", **shown})
        assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.body() == b"<svg/>"
    listed = looker.page.request.get(
        f"{looker.url}/sessions/{session_id}/panels/files", params={"path": "../"}
    )
    assert "cannot be used" in listed.text()


def test_history_is_filtered_and_shows_what_ran_and_what_came_of_it(looker: Looker, served: Served) -> None:
    session_id = served.notebook("Past", "print('first')", "1 / 0", "print('third')")
    page = looker.go(f"/sessions/{session_id}")
    history = opened(page, "history")
    runs = history.locator("ol.history > li")
    expect(runs).to_have_count(3)
    expect(runs.first).to_contain_text("cell 4")
    history.get_by_label("State").select_option("error")
    expect(runs).to_have_count(1)
    runs.get_by_text("1 / 0").first.click()
    expect(runs.get_by_role("region", name="Output 1")).to_contain_text("ZeroDivisionError")
    history.get_by_label("State").select_option("")
    expect(runs).to_have_count(3)
    history.get_by_label("Cell").select_option("2")
    expect(runs).to_have_count(1)
    expect(runs).to_contain_text("print('first')")


@pytest.mark.parametrize("scheme", first_of(["light", "dark"], 1))
def test_the_environment_and_the_network_are_told_and_all_panels_are_accessible(
    looker: Looker, served: Served, axe: str, scheme: str
) -> None:
    session_id = served.notebook(
        "Surroundings", "import json\ndef double(x):\n    'Twice.'\n    return x * 2"
    )
    served.agent.call("checkpoint_create", session_id=session_id, name="here")
    page = looker.go(f"/sessions/{session_id}")
    for name in ("variables", "files", "checkpoints", "branches", "history"):
        opened(page, name)
    network = opened(page, "network")
    expect(network).to_contain_text("The network is closed")
    served.tell("web_fetch", session_id=session_id, url="http://127.0.0.1:9/<b>")
    expect(network.get_by_role("row", name="127.0.0.1:9")).to_contain_text("refused")
    environment = opened(page, "environment")
    expect(environment).to_contain_text("max_session_memory")
    environment.get_by_text("Packages", exact=True).click()
    expect(environment.get_by_text("json", exact=True)).to_be_visible()
    expect(page.locator("#panel-variables")).to_contain_text("double(x)")
    expect(page.locator("#panel-checkpoints")).to_contain_text("here")
    expect(page.locator("[data-load][aria-busy]")).to_have_count(0)
    if scheme == "dark":
        page.get_by_label("Switch between light and dark").click()
    assert_accessible(page, axe)
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
