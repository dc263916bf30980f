"""A real daemon that serves the page, and a real browser that looks at it, both shared by all tests of a process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Frame,
    Page,
    Playwright,
    ViewportSize,
    expect,
    sync_playwright,
)

from cellwright.web._templates import asset_url
from tests.conftest import Require
from tests.support.browsers import LIMIT_MS, launch_options
from tests.support.clients.installing import Program, obtain
from tests.system.daemon.conftest import Place, Pump, place_in

# A neighbour's load must not fail a test: what is expected comes, or never does.
expect.set_options(timeout=LIMIT_MS)

# The page takes its words away after a few seconds, in which a test may not have looked.
REMEMBER = """() => {
  window.remembered = [];
  new MutationObserver((changes) => {
    for (const { addedNodes } of changes) for (const line of addedNodes) remembered.push(line.textContent);
  }).observe(document.getElementById("says"), { childList: true });
}"""

# Once for all of a daemon's kernels, and not in each of those that have a table.
PRELOADED = {"CELLWRIGHT_PRELOAD": '["pandas"]'}

# Where a test ran is nobody's business who looks at its picture.
ELSEWHERE = """([from, to]) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const one = texts.currentNode;
    if (one.data.includes(from)) one.data = one.data.replaceAll(from, to);
  }
}"""

SIZE: ViewportSize = {"width": 1280, "height": 900}

AXE = Program("axe-core", "4.10.3", file="axe-core/axe.min.js")


@dataclass
class Served:
    """A place whose daemon listens, and how to get in."""

    place: Place
    url: str
    token: str
    agent: Pump
    """An MCP client, as agents are."""
    signed_in: Any = None
    """What a browser keeps of having signed in with the token, once one has."""
    kept: set[str] = field(default_factory=set)
    """Sessions for the tests of several modules."""

    def notebook(self, name: str, *cells: str, run: bool = True) -> str:
        """A session with these code cells, as an agent makes it; its id."""
        session_id: str = self.agent.call("notebook_create", name=name)["session_id"]
        for cell in cells:
            self.add(session_id, cell, run=run)
        return session_id

    def add(self, session_id: str, content: str, *, run: bool = True) -> str:
        """A code cell more, run unless it is not to be; its id."""
        cell_id: str = self.agent.call("cell_add", session_id=session_id, content=content)["cell_id"]
        if run:
            self.tell("cell_execute", session_id=session_id, cell_id=cell_id)
        return cell_id

    def end_sessions(self) -> None:
        """End all but those that are kept."""
        sessions = self.agent.call("notebook_list", filter="all")["sessions"]
        for session_id in {one["session_id"] for one in sessions} - self.kept:
            self.tell("notebook_delete", session_id=session_id)

    def tell(self, tool: str, **arguments: Any) -> str:
        """Call a tool as the agent; what it answers in words, be it an error."""
        content = self.agent.answer(self.agent.begin(tool, **arguments))["result"]["content"]
        return "\n".join(piece.get("text", "") for piece in content)


@dataclass
class Looker:
    """A browser's window, signed in, and what it had to say."""

    page: Page
    url: str
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    overlooked: str | None = None
    """The status of refusals that are meant: the browser tells of each by itself, now or later."""

    def go(self, path: str) -> Page:
        self.page.goto(self.url + path)
        self.page.evaluate(REMEMBER)
        return self.page

    def hears(self, text: str) -> None:
        """The page says this in passing, or has said it since somebody went there."""
        self.page.wait_for_function("text => remembered.some((line) => line.includes(text))", arg=text)

    def forget(self) -> None:
        """Leave the window as if nobody had used it."""
        for other in self.page.context.pages[1:]:
            other.close()
        # The same site, so that the page's scripts need not be compiled again, and nothing of it runs.
        self.page.goto(self.url + asset_url("icon.svg"))
        self.page.evaluate("localStorage.clear(); sessionStorage.clear()")
        self.page.set_viewport_size(SIZE)
        self.page.emulate_media(color_scheme="light")
        self.messages.clear()
        self.requests.clear()
        self.overlooked = None

    def assert_quiet(self) -> None:
        """Nothing was complained of, and nothing was asked of anybody else."""
        assert [one for one in self.messages if self.overlooked is None or self.overlooked not in one] == []
        assert [one for one in self.requests if not one.startswith((self.url, "data:", "blob:"))] == []


@contextmanager
def serving(root: Path, **variables: str) -> Iterator[Served]:
    with place_in(root, **variables) as place:
        place.start_daemon()
        process = place.start("serve", "--port", "0", "--json")
        assert process.stdout is not None
        about = json.loads(process.stdout.readline())
        agent = place.pump()
        agent.initialize()
        token = Path(about["token_file"]).read_text().strip()
        yield Served(place, about["mcp"].removesuffix("/mcp"), token, agent)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One daemon for all tests that leave it usable: each makes a notebook of its own."""
    settings = {"CELLWRIGHT_MAX_SESSIONS": "200", "CELLWRIGHT_APPROVALS": '{"packages": "ask"}', **PRELOADED}
    root = tmp_path_factory.mktemp("served")
    (root / "gallery").mkdir()
    settings["CELLWRIGHT_TEMPLATES"] = json.dumps([str(root / "gallery")])
    with serving(root, **settings) as served:
        yield served


@pytest.fixture(scope="module", autouse=True)
def _no_session_is_left(served: Served) -> Iterator[None]:
    """The page of all sessions shows the memory of each, which a host has to add up page by page."""
    yield
    served.end_sessions()


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    """What drives browsers: there can be one of it in a thread."""
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="session")
def browser(playwright: Playwright, require: Require) -> Iterator[Browser]:
    """One for all tests of a process."""
    browser = playwright.chromium.launch(**launch_options(require))
    yield browser
    browser.close()


def unhurried(context: BrowserContext) -> BrowserContext:
    """A window that waits for whatever is done in it as long as tests wait for what they expect."""
    context.set_default_timeout(LIMIT_MS)
    return context


@contextmanager
def looking(browser: Browser, served: Served, **options: Any) -> Iterator[Looker]:
    """A window of its own, signed in with the daemon's token."""
    # What moves while a cell runs is painted sixty times a second, by a processor.
    usual = {"viewport": SIZE, "storage_state": served.signed_in, "reduced_motion": "reduce"}
    options = usual | options
    context = unhurried(browser.new_context(**options))
    looker = Looker(context.new_page(), served.url)
    page = looker.page
    page.on("console", lambda message: looker.messages.append(message.text))
    page.on("pageerror", lambda failure: looker.messages.append(str(failure)))
    page.on("request", lambda request: looker.requests.append(request.url))
    if served.signed_in is None:
        page.goto(served.url + "/")
        page.get_by_label("Token").fill(served.token)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(served.url + "/")
        served.signed_in = context.storage_state()
    try:
        yield looker
    finally:
        context.close()


class Window:
    """One window that tests have one after another: to open one costs more than to look at a page in it."""

    def __init__(self, browser: Browser, served: Served) -> None:
        self._browser, self._served = browser, served
        self._opened = ExitStack()
        self._looker: Looker | None = None

    @contextmanager
    def lent(self, run: pytest.Session) -> Iterator[Looker]:
        """The window as if it were new, for a test that lays no routes, listeners or scripts in it."""
        looker = self._looker or self._opened.enter_context(looking(self._browser, self._served))
        self._looker, failed = None, run.testsfailed
        yield looker
        looker.assert_quiet()
        # What a failed test has left in it nobody knows.
        if run.testsfailed == failed:
            looker.forget()
            self._looker = looker

    def close(self) -> None:
        self._opened.close()


@pytest.fixture(scope="session")
def kept_window(browser: Browser, served: Served) -> Iterator[Window]:
    window = Window(browser, served)
    yield window
    window.close()


@pytest.fixture
def looker(request: pytest.FixtureRequest, kept_window: Window) -> Iterator[Looker]:
    """Somebody who is signed in; at the end nothing may have been complained of."""
    with kept_window.lent(request.session) as looker:
        yield looker


@pytest.fixture
def alone(browser: Browser, served: Served) -> Iterator[Looker]:
    """As ``looker``, in a window that no other test has, for what a window keeps: routes, listeners, scripts, permissions."""
    with looking(browser, served) as looker:
        yield looker
        looker.assert_quiet()


@pytest.fixture
def looking_at(browser: Browser, served: Served) -> Callable[..., AbstractContextManager[Looker]]:
    """Windows of other kinds than ``looker``'s, quiet at their end too."""

    @contextmanager
    def open_window(**options: Any) -> Iterator[Looker]:
        with looking(browser, served, **options) as looker:
            yield looker
            looker.assert_quiet()

    return open_window


@pytest.fixture(scope="session")
def axe(require: Require) -> str:
    """The script that looks for what people with a screen reader or a keyboard stumble over."""
    return obtain(AXE, require).command.read_text()


def assert_accessible(page: Page | Frame, axe: str) -> None:
    """No finding of axe on the page as it stands, or in one of its frames, which has no heading of its own."""
    # Through the debugger, as the page's own policy lets no foreign script in; into its frames nothing comes at all.
    rules = "{ 'page-has-heading-one': { enabled: false } }" if isinstance(page, Frame) else "{}"
    options = f"{{ iframes: false, rules: {rules}, resultTypes: ['violations'] }}"
    # All that was in order, told too, would take more than half of the time.
    found = page.evaluate(f"(() => {{ {axe}; return axe.run({options}).then((all) => all.violations); }})()")
    told = [
        f"{one['id']}: {one['help']} {[node['html'][:120] for node in one['nodes'][:3]]}" for one in found
    ]
    assert told == []
