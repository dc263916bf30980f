"""Getting in, being shown out, and finding the way back: as a person does it, and as somebody who should not."""

from __future__ import annotations

import http.client
import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from cellwright.audit import read_lines
from cellwright.daemon.connect import read_about
from tests.browser.web.conftest import Served, assert_accessible, looking, serving, unhurried
from tests.system.daemon.conftest import Place, place, place_in
from tests.waiting import LIMIT_S

__all__ = ["place"]


def asked(
    url: str, path: str, method: str = "GET", body: str | None = None, **headers: str
) -> http.client.HTTPResponse:
    """What a program gets that is no browser."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=LIMIT_S)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        sent.setdefault("Content-Type", "application/x-www-form-urlencoded")
    with closing(connection):
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        answer.read()
    return answer


def link_of(place: Place, *arguments: str) -> str:
    """The link that ``cellwright ui`` prints."""
    done = place.run("ui", "--no-open", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def signed_in_cookie(served: Served) -> str:
    answer = asked(served.url, "/enter", "POST", f"token={served.token}")
    assert answer.status == 303
    return answer.headers["set-cookie"].partition(";")[0]


@pytest.fixture
def window(browser: Browser) -> Iterator[Page]:
    """A browser's window that nobody is signed in with."""
    context = unhurried(browser.new_context())
    yield context.new_page()
    context.close()


# As a person ---------------------------------------------------------------------------------------------------------


def test_somebody_signs_in_with_the_keyboard_to_where_they_wanted_to_go_and_out_again(
    window: Page, served: Served, axe: str
) -> None:
    session_id = served.notebook("Asked for")
    window.goto(f"{served.url}/sessions/{session_id}")
    expect(window.get_by_label("Token")).to_be_focused()
    assert_accessible(window, axe)
    window.keyboard.type("not the token")
    window.keyboard.press("Enter")
    expect(window.get_by_role("alert")).to_have_text("This token is not the right one.")
    window.emulate_media(color_scheme="dark")
    assert_accessible(window, axe)
    window.get_by_label("Token").fill(served.token)
    window.keyboard.press("Enter")
    window.wait_for_url(f"{served.url}/sessions/{session_id}")
    window.get_by_role("button", name="Sign out").click()
    window.wait_for_url(f"{served.url}/enter")
    window.goto(served.url)
    expect(window.get_by_label("Token")).to_be_visible()


def test_a_link_signs_in_once_also_from_a_page_of_another_site(window: Page, served: Served) -> None:
    session_id = served.notebook("Linked")
    link = link_of(served.place, "linked")
    assert link.startswith(served.url), "the open listener is used"
    window.set_content(f'<a href="{link}">here</a>')
    window.get_by_role("link").click()
    window.wait_for_url(f"{served.url}/sessions/{session_id}")
    expect(window.locator(".who")).to_contain_text("owner")
    # A cookie that is for this site only does not come along from elsewhere, and one is signed in all the same.
    window.goto("about:blank")
    window.set_content(f'<a href="{served.url}/sessions/{session_id}">there</a>')
    window.get_by_role("link").click()
    window.wait_for_url(f"{served.url}/sessions/{session_id}")
    expect(window.locator(".who")).to_contain_text("owner")
    assert asked(served.url, link.removeprefix(served.url)).status == 410


def test_whoever_may_only_look_cannot_do_more_until_they_may_and_is_out_once_removed(
    browser: Browser, served: Served
) -> None:
    session_id = served.notebook("Looked at")
    token = served.place.run("people", "add", "Ann", "--role", "view").stdout.strip()
    ann = Served(served.place, served.url, token, served.agent)
    with looking(browser, ann) as looker:
        suspend = looker.page.locator(f"#session-{session_id} [data-needs=own]").first
        expect(suspend).to_be_hidden()
        expect(looker.page.locator(".who")).to_have_text("Ann view")
        told = looker.page.evaluate(
            """async (path) => (await fetch(path, {method: "POST", headers: {"x-cellwright-page":
            document.querySelector("meta[name=csrf]").content}})).status""",
            f"/sessions/{session_id}/suspend",
        )
        assert told == 403
        noted = [json.loads(line) for line in read_lines(served.place.storage)]
        refused = [
            (line["by"], line["about"]["path"]) for line in noted if "not_allowed" in line.get("refused", "")
        ]
        assert refused == [("page:Ann", f"/sessions/{session_id}/suspend")]
        assert served.place.run("people", "role", "Ann", "own").returncode == 0
        looker.page.reload()
        looker.page.get_by_label("More for Looked at").click()
        expect(suspend).to_be_visible()
        assert served.place.run("people", "remove", "Ann").returncode == 0
        # Something to tell: nobody who was removed hears of it.
        served.notebook("Unseen")
        looker.page.wait_for_url(f"{served.url}/enter**")
        assert "unseen" not in looker.page.content()


def test_a_page_says_that_the_daemon_was_killed_and_shows_every_line_once_serve_goes_on_at_the_same_address(
    browser: Browser, tmp_path: Path
) -> None:
    # A host whose kernels have nothing to do waits for the next daemon, however late that comes.
    with serving(tmp_path, CELLWRIGHT_HOST_IDLE_S="300") as served:
        made = served.agent.call("notebook_create", name="Lines", mode="direct")
        session_id, gate = made["session_id"], Path(made["cwd"]) / "go"
        source = (
            "import os, time\n"
            "for number in range(40):\n"
            "    print('line', number, flush=True)\n"
            "    while number >= 20 and not os.path.exists('go'):\n"
            "        time.sleep(0.05)\n"
        )
        with looking(browser, served) as looker:
            page = looker.go(f"/sessions/{session_id}")
            served.agent.begin("cell_add_and_run", session_id=session_id, content=source)
            outputs = page.locator("article.cell.code .outputs")
            expect(outputs).to_contain_text("line 20")
            killed = served.place.daemon().pid
            served.place.daemon().kill()
            expect(page.locator("#link")).to_contain_text("Connection lost")
            gate.touch()
            expect(outputs).to_contain_text("line 39")
            expect(page.locator("#link")).to_be_hidden()
            lines = outputs.inner_text().split("\n")
            assert [line for line in lines if line.startswith("line")] == [f"line {n}" for n in range(40)]
        _stopped_after_going_on(served, killed)


def _stopped_after_going_on(served: Served, killed: int) -> None:
    """``serve`` has said that it goes on with the next daemon, and ends with that one."""
    process, *_ = served.place.started
    assert "was killed" in _until_said(process, "listening again")
    assert read_about(served.place.paths)["pid"] != killed
    assert served.place.ready()["listeners"] == [served.url]
    assert served.place.run("daemon", "stop").returncode == 0
    assert process.wait(LIMIT_S) == 3


# As somebody who should not ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({}, 303),
        ({"Cookie": "cellwright-{port}=eyJuYW1lIjoib3duZXIifQ.00"}, 303),
    ],
)
def test_nobody_gets_in_by_another_name_from_another_page_or_with_a_cookie_of_their_own_making(
    served: Served, headers: dict[str, str], status: int
) -> None:
    port = str(urlsplit(served.url).port)
    sent = {name: value.replace("{port}", port) for name, value in headers.items()}
    for path in ("/", "/sessions/s-1", "/live"):
        assert asked(served.url, path, **sent).status == status


def test_nothing_is_done_that_the_page_itself_did_not_ask_for(served: Served) -> None:
    cookie = signed_in_cookie(served)
    assert asked(served.url, "/here", Cookie=cookie).status == 204
    assert asked(served.url, "/leave", "POST", Cookie=cookie).status == 403
    assert asked(served.url, "/leave", "POST").status == 401
    for site in ("cross-site", "same-site"):
        sent = {"Sec-Fetch-Site": site}
        assert asked(served.url, "/enter", "POST", f"token={served.token}", **sent).status == 403
    assert asked(served.url, "/enter", "POST", "token=" + "x" * 20_000).status == 413


def test_the_cookie_is_for_this_port_and_this_site_and_no_script(served: Served) -> None:
    sent = {"X-Forwarded-Proto": "https"}
    for secure, headers in ((False, {}), (True, sent)):
        answer = asked(served.url, "/enter", "POST", f"token={served.token}&next=//evil.example/", **headers)
        assert answer.headers["location"] == "/"
        name, *flags = answer.headers["set-cookie"].lower().split("; ")
        assert name.startswith(f"cellwright-{urlsplit(served.url).port}=")
        assert {"httponly", "samesite=strict", "path=/"} <= set(flags)
        assert ("secure" in flags) == secure


@pytest.mark.parametrize("path", ["/", "/enter", "/nothing", "/assets/x/page.css", "/here"])
def test_every_answer_says_what_a_browser_may_load(served: Served, path: str) -> None:
    cookie = signed_in_cookie(served)
    for headers in ({}, {"Cookie": cookie}):
        found = asked(served.url, path, **headers).headers
        assert "default-src 'none'" in found["content-security-policy"]
        assert "unsafe" not in found["content-security-policy"]
        assert found["x-content-type-options"] == "nosniff"


def test_guessing_tokens_takes_longer_and_longer_and_a_link_works_meanwhile(
    window: Page, tmp_path: Path
) -> None:
    with serving(tmp_path) as served:
        statuses = [asked(served.url, "/enter", "POST", "token=wrong").status for _ in range(5)]
        assert statuses == [401] * 5
        # Whoever guesses slower than that is let through, and waits longer after the next wrong token.
        refused = asked(served.url, "/enter", "POST", "token=wrong")
        while (
            refused.status != 429
            or asked(served.url, "/enter", "POST", f"token={served.token}").status != 429
        ):
            refused = asked(served.url, "/enter", "POST", "token=wrong")
        assert 1 <= int(refused.headers["retry-after"]) <= 32
        window.goto(link_of(served.place))
        window.wait_for_url(served.url + "/")


# What stays open -----------------------------------------------------------------------------------------------------


def test_the_page_opened_by_itself_is_there_again_with_the_daemon_after_the_one_that_was_killed(
    place: Place,
) -> None:
    url = link_of(place).partition("/enter")[0]
    assert link_of(place).startswith(url), "one port is enough"
    place.daemon().kill()
    assert place.run("daemon", "start").returncode == 0
    assert place.ready()["listeners"] == [url]
    assert asked(url, "/enter").status == 200
    # What was stopped was meant to be.
    assert place.run("daemon", "stop").returncode == 0
    assert place.run("daemon", "start").returncode == 0
    assert place.ready()["listeners"] == []


@pytest.mark.matrix  # `test_daemon` has one that nobody needs
def test_a_page_that_nobody_looks_at_keeps_no_daemon(tmp_path: Path) -> None:
    with place_in(tmp_path, CELLWRIGHT_DAEMON_IDLE_S="2") as place:
        link_of(place)
        for daemon in place.daemons():
            daemon.wait(LIMIT_S)


def _until_said(process: subprocess.Popen[bytes], words: str) -> str:
    assert process.stderr is not None
    said = ""
    while words not in said:
        line = process.stderr.readline().decode()
        assert line, f"it ended after: {said}"
        said += line
    return said
