"""Asking in words, as a person does it in a browser: a real daemon, real kernels, and a provider that answers by script."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.web.conftest import PRELOADED, Looker, Served, Window, assert_accessible, looking, serving
from tests.matrix import first_of
from tests.support.agent.wires.servers import Call, Fault, Recorded, Reply, Server, Text, Think, reply, serve
from tests.waiting import LIMIT_S, scaled

NARROW = 360
SECRET = "sk-entered-on-the-page-0123456789"  # noqa: S105  # opens nothing
QUICK = {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring", "CELLWRIGHT_MODEL_RETRIES": "0"}
KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
SUM = "import csv\nrows = list(csv.DictReader(open('sales.csv')))\nprint(sum(int(row['units']) for row in rows))"
TABLE = "import pandas as pd\nsales = pd.read_csv('sales.csv')\nsales"


@dataclass
class Chatting:
    """Somebody in front of a daemon that has a key, and the provider that the key is for."""

    served: Served
    provider: Server


@pytest.fixture(scope="module")
def chatting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chatting]:
    with serve() as provider:
        keys = {name: provider.environment[name] for name in KEYS}
        with serving(tmp_path_factory.mktemp("chatting"), **QUICK, **PRELOADED, **keys) as served:
            (served.place.root / "work" / "sales.csv").write_text("region,units\nnorth,3\nsouth,4\n")
            yield Chatting(served, provider)


@pytest.fixture(scope="module")
def chat_window(browser: Browser, chatting: Chatting) -> Iterator[Window]:
    window = Window(browser, chatting.served)
    yield window
    window.close()


@pytest.fixture
def window(request: pytest.FixtureRequest, chat_window: Window, chatting: Chatting) -> Iterator[Looker]:
    with chat_window.lent(request.session) as looker:
        yield looker
    assert chatting.provider.left == 0


class Gate:
    """An answer that is held back until the test has seen what it wants to see."""

    def __init__(self, answer: Reply) -> None:
        self._answer = answer
        self._asked, self._open = threading.Event(), threading.Event()

    def __call__(self, _: Recorded) -> Reply:
        self._asked.set()
        # Until after everything that a test waits for meanwhile.
        assert self._open.wait(scaled(60))
        return self._answer

    def until_asked(self) -> None:
        """A cell's output is shown before the model is asked what comes next."""
        assert self._asked.wait(LIMIT_S)

    def open(self) -> None:
        self._open.set()


def ask(page: Page, question: str, *, pattern: str = "react", data: str = "") -> None:
    page.get_by_role("textbox", name="What do you want to know?").fill(question)
    page.get_by_label("Pattern").select_option(pattern)
    page.get_by_label("Data files").fill(data)
    page.get_by_role("button", name="Ask", exact=True).click()


def test_a_question_is_watched_step_by_step_and_answered_with_what_proves_it(
    window: Looker, chatting: Chatting
) -> None:
    last = Gate(reply(Text("They sold **7** units, and I guess 12345 more.")))
    chatting.provider.add(
        reply(Think("I add them up."), Call("cell_add_and_run", {"content": SUM})),
        reply(Call("cell_add_and_run", {"content": TABLE})),
        last,
    )
    page = window.go("/chat")
    expect(page.get_by_label("Model")).to_contain_text("openai:gpt-6.1-terra")
    ask(page, "How many units were sold?", data="sales.csv")
    expect(page.get_by_role("heading", level=2)).to_have_text("How many units were sold?")
    turn = page.locator("article.turn")
    expect(turn).to_contain_text("Ran a new cell")
    expect(turn.locator(".printed").first).to_have_text("7")
    expect(turn).to_contain_text("of $2.00")
    turn.get_by_text("Code", exact=True).first.click()
    expect(turn.locator("pre.code").first).to_contain_text("csv.DictReader")
    last.open()
    expect(turn.locator(".said strong")).to_have_text("7")
    expect(turn).to_contain_text("No output has these numbers of the answer: 12345")
    expect(turn.locator("figure")).to_contain_text("north")
    expect(turn.locator(".facts")).to_contain_text("verified")
    expect(turn.locator(".facts")).to_contain_text("3 requests")
    turn.get_by_text("Steps", exact=True).click()
    expect(turn.locator(".steps")).to_contain_text("Ran the notebook from the top")
    assert page.url.startswith(f"{window.url}/chat/c-")
    turn.get_by_role("link", name="Notebook").click()
    expect(page.locator("#cells")).to_contain_text("csv.DictReader")


def test_a_second_window_sees_the_same_and_a_stopped_question_can_be_asked_again(
    window: Looker, chatting: Chatting, browser: Browser
) -> None:
    held = Gate(reply(Text("Too late.")))
    chatting.provider.add(reply(Call("cell_add_and_run", {"content": "x = 41 + 1\nprint(x)"})), held)
    page = window.go("/chat")
    with looking(browser, chatting.served) as other:
        other.go("/chat")
        ask(page, "What is 41 + 1?")
        expect(page.locator(".printed")).to_have_text("42")
        other.page.get_by_role("link", name="What is 41 + 1?").click()
        expect(other.page.locator(".printed")).to_have_text("42")
        other.page.reload()
        expect(other.page.locator(".printed")).to_have_text("42")
        held.until_asked()
        page.locator("body").press("s")
        for one in (page, other.page):
            expect(one.locator(".turn .state.interrupted")).to_have_text("stopped")
        held.open()
        chatting.provider.add(reply(Text("It is 42.")))
        page.get_by_role("button", name="Ask again: What is 41 + 1?").click()
        for one in (page, other.page):
            expect(one.locator(".turn")).to_have_count(2)
            expect(one.locator(".turn").last.locator(".said")).to_contain_text("It is 42")
        other.assert_quiet()


def test_a_conversation_goes_on_over_several_turns_is_found_again_and_deleted(
    window: Looker, chatting: Chatting
) -> None:
    chatting.provider.add(
        reply(Call("cell_add_and_run", {"content": "n = 5\nprint(n, n * 2)"})),
        reply(Text("There are 5.")),
        reply(Text("Twice that is 10.")),
    )
    page = window.go("/chat")
    ask(page, "How many are there?")
    expect(page.locator(".said")).to_have_text("There are 5.")
    box = page.get_by_role("textbox", name="Go on asking")
    box.fill("And twice that?")
    page.get_by_label("Pattern").select_option("react")
    box.press("Control+Enter")
    expect(page.locator(".turn").last.locator(".said")).to_have_text("Twice that is 10.")
    expect(box).to_have_value("")
    expect(page.get_by_label("Pattern")).to_have_value("react")
    expect(page.locator(".said").first).to_have_text("There are 5.")
    page.get_by_role("link", name="All conversations").click()
    row = page.locator(".conversations li", has_text="How many are there?")
    expect(row).to_contain_text("2 questions")
    page.once("dialog", lambda dialog: dialog.accept())
    row.get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)


def test_what_cannot_be_asked_is_said_and_the_question_stays(window: Looker) -> None:
    window.overlooked = "409"
    page = window.go("/chat")
    ask(page, "What is in it?", data="none.csv")
    window.hears("There is no file none.csv")
    page.get_by_label("Data files").fill("../../etc/passwd")
    page.get_by_role("button", name="Ask", exact=True).click()
    window.hears("outside the directories")
    page.get_by_label("Data files").fill("")
    page.get_by_label("Budget").fill("a lot")
    page.get_by_role("button", name="Ask", exact=True).click()
    window.hears("no part of a budget")
    expect(page.get_by_role("textbox", name="What do you want to know?")).to_have_value("What is in it?")


def test_a_run_that_fails_says_why_and_what_to_do_next(window: Looker, chatting: Chatting) -> None:
    chatting.provider.add(Fault(401, message="this key is unknown"))
    page = window.go("/chat")
    ask(page, "Will it fail?")
    turn = page.locator(".turn")
    expect(turn.locator(".state.failed").first).to_have_text("no answer")
    expect(turn).to_contain_text("Ask again with")
    chatting.provider.add(reply(Call("cell_add_and_run", {"content": "print(1)"})))
    page.get_by_role("textbox", name="Go on asking").fill("And with next to nothing?")
    page.get_by_label("Budget").fill("1 step")
    page.get_by_label("Pattern").select_option("react")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".turn").last.locator(".said")).to_contain_text("The budget is spent")


@pytest.mark.parametrize("scheme", first_of(["dark", "light"], 1))
def test_hostile_words_of_a_model_neither_run_nor_break_the_page(
    window: Looker, chatting: Chatting, axe: str, scheme: Any
) -> None:
    evil = "<script>document.title = 'pwned'</script><img src=x onerror=\"document.title = 'pwned'\">"
    named = "<img src=x onerror=alert(1)>.txt"
    code = f"# </code></pre>{evil}\nopen({named!r}, 'w').write('a')\nprint({evil!r})"
    answer = (
        f"# Main\n\n{evil}\n\n[a](javascript:alert(1)) ![b](https://elsewhere.example/b.png)\n\n"
        '<form action="/leave"><button id="says" style="position: fixed">press</button></form>\n\n'
        "#### Chat turns\n\n| a | b |\n|:--|--:|\n| x | y |\n"
    )
    chatting.provider.add(reply(Text(evil), Call("cell_add_and_run", {"content": code})), reply(Text(answer)))
    page = window.go("/chat")
    ask(page, f"What of {evil}?")
    turn = page.locator("article.turn")
    expect(turn.locator(".said td.align-right")).to_have_text("y")
    expect(turn.locator(".files a")).to_contain_text(named)
    turn.get_by_text("Steps", exact=True).click()
    expect(turn.locator(".steps .printed")).to_contain_text("<script>")
    turn.locator(".steps").get_by_text("Code", exact=True).click()
    assert page.title() != "pwned"
    assert page.locator("#main").count() == page.locator("#says").count() == 1
    assert page.locator("main script, main form[action='/leave'], main img").count() == 0
    page.emulate_media(color_scheme=scheme)
    assert_accessible(page, axe)
    page.set_viewport_size({"width": NARROW, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW


def test_keys_and_models_are_entered_on_the_page_and_never_shown_again(
    looker: Looker, served: Served, axe: str
) -> None:
    looker.overlooked = "409"
    page = looker.go("/chat")
    notice = page.get_by_role("region", name="No model is set up")
    expect(notice).to_contain_text("Keys and models")
    ask(page, "Is anybody there?")
    looker.hears("No model is set up")
    with serve() as provider:
        page.get_by_text("Keys and models", exact=True).last.click()
        page.get_by_label("Provider").select_option("compatible")
        page.get_by_label("Key", exact=True).fill(SECRET)
        assert_accessible(page, axe)
        page.get_by_role("button", name="Keep the key").click()
        page.wait_for_load_state()
        page.get_by_text("Keys and models", exact=True).last.click()
        page.get_by_label("Model on a server").fill(f"{provider.url}/v1#mine")
        page.get_by_role("button", name="Offer the model").click()
        expect(page.locator("#chat-models select")).to_contain_text("#mine")
        provider.add(reply(Text("Somebody is.")))
        ask(page, "Is anybody there?")
        expect(page.locator(".said")).to_contain_text("Somebody is.")
        assert SECRET in str(provider.requests[-1].headers)
        assert SECRET not in page.content()
        kept = served.place.storage / "models.json"
        assert json.loads(kept.read_text()) == [f"{provider.url}/v1#mine"]
        page.get_by_text("Keys and models", exact=True).last.click()
        # The page is loaded anew then; another one is not opened meanwhile.
        with page.expect_response("**/chat/models/forget"), page.expect_navigation():
            page.get_by_role("button", name="Forget http").click()
        assert json.loads(kept.read_text()) == []
    written = [path for path in served.place.root.rglob("*") if path.is_file()]
    assert [path for path in written if SECRET.encode() in path.read_bytes()] == []


def test_a_turn_is_edited_and_asked_again_where_only_the_turns_before_it_are_known(
    window: Looker, chatting: Chatting
) -> None:
    provider = chatting.provider
    table = "import pandas as pd\nn = {n}\npd.DataFrame({{'count': [n]}})"
    provider.add(
        reply(Call("cell_add_and_run", {"content": table.format(n=5)})),
        reply(Text("There are 5.")),
        reply(Call("cell_add_and_run", {"content": "n = n * 2\nprint('twice', n)"})),
        reply(Text("Twice that is 10.")),
    )
    page = window.go("/chat")
    page.get_by_label("Add files to ask about").set_input_files(
        {"name": "brought.csv", "mimeType": "text/csv", "buffer": b"a\n1\n"}
    )
    expect(page.get_by_label("Data files", exact=True)).to_have_value("brought.csv")
    ask(page, "How many are there?", data="brought.csv")
    turns = page.locator(".turn")
    expect(turns.last.locator(".said")).to_contain_text("There are 5.")
    page.get_by_role("textbox", name="Go on asking").fill("And twice that?")
    page.get_by_label("Pattern").select_option("react")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(turns.last.locator(".said")).to_contain_text("Twice that is 10.")
    expect(page.locator("#chat-head")).to_contain_text("4 requests")
    before = page.url
    held = Gate(reply(Text("Three times that is 15.")))
    provider.add(reply(Call("cell_add_and_run", {"content": "print('thrice', n * 3)"})), held)
    turns.last.get_by_text("Edit and ask again", exact=True).click()
    turns.last.get_by_role("textbox", name="The question, edited").fill("And three times that?")
    turns.last.get_by_role("button", name="Ask on a branch").click()
    expect(page.locator(".growing")).to_contain_text("thrice 15")
    assert page.url != before
    held.open()
    expect(turns.last.locator(".said")).to_contain_text("Three times that is 15.")
    expect(page.locator(".asked")).to_have_text(["How many are there?", "And three times that?"])
    sent = provider.requests[-1].text
    assert "There are 5." in sent
    assert "Twice that" not in sent
    page.goto(before)
    expect(page.locator(".asked")).to_have_text(["How many are there?", "And twice that?"])
    figure = turns.first.locator("figure")
    address = figure.get_by_role("link", name="Cell").get_attribute("href") or ""
    session_id, cell_id = address.removeprefix("/sessions/").split("#cell-")
    about = {"session_id": session_id, "cell_id": cell_id}
    chatting.served.tell("cell_update", **about, content=table.format(n=77))
    assert "77" in chatting.served.tell("cell_execute", **about)
    page.reload()
    expect(figure).to_contain_text(re.compile(r"count\s+0\s+5"))


@pytest.mark.matrix  # `test_doors` kills it, `agent/test_asking` cuts a run off
def test_a_daemon_that_dies_in_the_middle_leaves_a_conversation_that_shows_what_there_is(
    browser: Browser, tmp_path: Path
) -> None:
    held = Gate(reply(Text("Nobody hears this.")))
    with serve([reply(Call("cell_add_and_run", {"content": "print(6 * 7)"})), held]) as provider:
        keys = {name: provider.environment[name] for name in KEYS}
        with serving(tmp_path, **QUICK, **keys) as served, looking(browser, served) as looker:
            ask(looker.go("/chat"), "What is 6 * 7?")
            expect(looker.page.locator(".printed")).to_have_text("42")
            held.until_asked()
            served.place.daemon().kill()
            expect(looker.page.locator("#link")).to_contain_text("Connection lost")
            held.open()
            expect(looker.page.locator("#link")).to_be_hidden()
            looker.messages.clear()  # what was refused while nobody listened
            page = looker.go("/chat")
            page.get_by_role("link", name="What is 6 * 7?").click()
            turn = page.locator(".turn")
            expect(turn.locator(".ended .state")).to_have_text("not finished")
            expect(turn.locator(".facts")).to_contain_text("2 requests")
            turn.get_by_text("Steps", exact=True).click()
            expect(turn.locator(".printed")).to_have_text("42")
            expect(turn.locator(".steps li").last).to_contain_text("not finished")
            provider.add(reply(Text("It is 42.")))
            turn.get_by_role("button", name="Ask again").click()
            expect(page.locator(".turn").last.locator(".said")).to_contain_text("It is 42")
            looker.assert_quiet()
