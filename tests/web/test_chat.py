"""Asking in words, as a person does it in a browser: a real daemon, real kernels, and a provider that answers by script."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.agent.wires.servers import Call, Recorded, Reply, Server, Text, Think, reply, serve

from web.conftest import Looker, Served, assert_accessible, looking, serving

NULL = "keyring.backends.null.Keyring"
SUM = "import csv\nrows = list(csv.DictReader(open('sales.csv')))\nprint(sum(int(row['units']) for row in rows))"
TABLE = "import pandas as pd\nsales = pd.read_csv('sales.csv')\nsales"


# The first question imports a provider's library, and the last step of each runs its notebook again.
expect.set_options(timeout=60_000)


@dataclass
class Chatting:
    """Somebody in front of a daemon that has a key, and the provider that the key is for."""

    served: Served
    provider: Server


@pytest.fixture(scope="module")
def chatting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chatting]:
    with serve() as provider:
        keys = {name: provider.environment[name] for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL")}
        variables = {"PYTHON_KEYRING_BACKEND": NULL, "CELLWRIGHT_MODEL_RETRIES": "0", **keys}
        with serving(tmp_path_factory.mktemp("chatting"), **variables) as served:
            (served.place.root / "work" / "sales.csv").write_text("region,units\nnorth,3\nsouth,4\n")
            yield Chatting(served, provider)


@pytest.fixture
def window(browser: Browser, chatting: Chatting) -> Iterator[Looker]:
    with looking(browser, chatting.served) as looker:
        yield looker
        looker.assert_quiet()
    assert chatting.provider.left == 0


class Gate:
    """An answer that is held back until the test has seen what it wants to see."""

    def __init__(self, answer: Reply) -> None:
        self._answer = answer
        self._open = threading.Event()

    def __call__(self, _: Recorded) -> Reply:
        assert self._open.wait(60)
        return self._answer

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


def test_no_key() -> None: ...
