"""The scenario's five levels, from a question to a notebook that proves its answer: real engine, kernels and sandbox.

Only the models' replies are written down; what they ask for is really fetched, run, drawn, mended and verified.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from cellwright import Engine
from cellwright.agent.patterns import Code, Draft, Ideas, Pick, Step, Verdict
from tests.kernel.engine.conftest import end_host, open_at
from tests.support.agent.scripting import Call, Script, change, run
from tests.waiting import UNHURRIED

pytestmark = pytest.mark.anyio

ENTRIES = [{"name": f"entry {place}", "score": (place * 37) % 101} for place in range(40)]
STOCK = [{"day": day, "close": 100 + (day * 7) % 13 + day / 2} for day in range(1, 41)]
PAGES = {"/entries.json": json.dumps(ENTRIES), "/stock.json": json.dumps(STOCK)}


class _Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = PAGES[self.path].encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # the base's name
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Site) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory, site: str) -> AsyncIterator[Engine]:
    root = tmp_path_factory.mktemp("scenario")
    lists = {"network": "allow", "network_allow": [site.removeprefix("http://")], "fetch_interval_s": 0}
    async with open_at(root, max_sessions=100, standby_kernels=1, **lists, **UNHURRIED) as engine:
        yield engine
    end_host(root / "state")


async def test_level_1_a_sum_takes_one_request(ask: Any) -> None:
    code = "total = sum(i * i for i in range(1, 101))\nprint(total)"
    script = Script({"main/act": [Call("answer", {"code": code, "sentence": "The sum of squares is {1}."})]})
    outcome = await ask("Calculate the sum of squares from 1 to 100", script, verify=True)
    assert (outcome.answer, outcome.pattern) == ("The sum of squares is 338350.", "react")
    assert (outcome.steps, outcome.verified, outcome.untraced) == (1, True, ())


async def test_level_2_what_an_api_has_is_fetched_looked_at_and_shown(ask: Any, site: str) -> None:
    top = (
        "import json\nentries = json.load(open('entries.json'))\n"
        "for one in sorted(entries, key=lambda one: -one['score'])[:5]: print(one['name'], one['score'])"
    )
    best = max(ENTRIES, key=lambda one: int(str(one["score"])))
    script = Script(
        {
            "main/act": [
                Call("web_fetch", {"url": f"{site}/entries.json", "type": "file", "path": "entries.json"}),
                run(top),
                f"The top entry is {best['name']} with {best['score']}.",
            ]
        }
    )
    outcome = await ask(
        f"Download JSON data from {site}/entries.json and show the top 5", script, verify=True
    )
    assert outcome.ok, outcome.report
    assert (outcome.verified, outcome.untraced) == (True, ())
    assert script.used_up


@pytest.mark.matrix  # `test_patterns` has the critic, `plans` the rules
async def test_level_3_a_chart_is_drawn_mended_by_rule_and_by_its_critic(ask: Any, tmp_path: Path) -> None:
    data = tmp_path / "sales.csv"
    data.write_text("category,amount\nbooks,120\ngames,340\nmusic,80\nbooks,60\n")
    draw = (
        "import pandas as pd, matplotlib.pyplot as plt\nsales = pd.read_csv('sales.csv')\n"
        "totals = sales.groupby('{column}')['amount'].sum()\nprint(totals.to_string())\n"
        "totals.plot.bar(title='Sales by category', xlabel='category', ylabel={ylabel!r})\nplt.show()"
    )
    script = Script(
        {
            "main/act": [
                # The column is misspelt: a fixer knows the right one, and no request is spent on it.
                run(draw.format(column="categry", ylabel="")),
                "Games lead with 340.",
                change(draw.format(column="category", ylabel="amount (USD)")),
                "Games lead with 340, then books with 180 and music with 80.",
            ],
            "main/critic": [Verdict(ok=False, issues=["the y axis has no label"]), Verdict(ok=True)],
        }
    )
    outcome = await ask("Load this CSV and create a bar chart by category", script, data=(data,), verify=True)
    assert outcome.ok, outcome.report
    assert (outcome.pattern, outcome.verified, outcome.untraced) == ("reflect", True, ())
    assert outcome.charts
    assert script.used_up


@pytest.mark.matrix  # `test_patterns` plans, `plans` carries out
async def test_level_4_several_steps_are_planned_and_carried_out(ask: Any, site: str) -> None:
    draft = Draft(
        steps=[
            Step(
                description="Read it",
                code="import pandas as pd\nstock = pd.read_json('stock.json')",
                check="len(stock) == 40",
            ),
            Step(
                description="Moving averages",
                code="stock['mean'] = stock['close'].rolling(5).mean()\nprint(round(stock['mean'].iloc[-1], 2))",
            ),
            Step(description="Plot"),
        ]
    )
    plot = "import matplotlib.pyplot as plt\nstock.plot(x='day', y=['close', 'mean'], title='Stock', ylabel='USD')\nplt.show()"
    mean = round(sum(float(one["close"]) for one in STOCK[-5:]) / 5, 2)
    script = Script(
        {
            "main/plan": [draft],
            "main/code": [Code(code=plot)],
            "main/act": [f"The last moving average is {mean}."],
        }
    )
    fetched = Script(
        {
            "main/act": [
                Call("web_fetch", {"url": f"{site}/stock.json", "type": "file", "path": "stock.json"}),
                Call("file_system", {"action": "exists", "path": "stock.json"}),
                "The data is there.",
            ]
        }
    )
    first = await ask(f"Download {site}/stock.json", fetched, pattern="react")
    outcome = await ask(
        "Download stock data, calculate moving averages, and plot trends",
        script,
        conversation_id=first.conversation_id,
        verify=True,
    )
    assert outcome.ok, outcome.report
    assert (outcome.pattern, outcome.session_id, outcome.verified) == ("plan", first.session_id, True)
    assert outcome.untraced == ()
    assert script.used_up


@pytest.mark.matrix  # `test_patterns` has the branches
async def test_level_5_several_models_are_tried_side_by_side(
    ask: Any, engine: Engine, tmp_path: Path
) -> None:
    data = tmp_path / "flowers.csv"
    rows = [f"{place % 7},{(place * 3) % 5},{int((place % 7) > 3)}" for place in range(80)]
    data.write_text("\n".join(["length,width,kind", *rows]) + "\n")
    fit = (
        "import pandas as pd\nfrom sklearn.{module} import {model}\nflowers = pd.read_csv('flowers.csv')\n"
        "train, test = flowers[:60], flowers[60:]\nmodel = {model}({options}).fit(train[['length', 'width']], train['kind'])\n"
        "score = model.score(test[['length', 'width']], test['kind'])\nprint(f'{{score:.3f}}')"
    )
    tree = fit.format(module="tree", model="DecisionTreeClassifier", options="random_state=0")
    dummy = fit.format(module="dummy", model="DummyClassifier", options="strategy='most_frequent'")
    script = Script(
        {
            "main/propose": [Ideas(ideas=["a decision tree", "a dummy"])],
            "main.1/act": [run(tree), "The tree scores 1.000."],
            "main.2/act": [run(dummy), "The dummy is worse."],
            "main/aggregate": [Pick(best=1, why="higher accuracy", answer="The tree is best, with 1.000.")],
        }
    )
    outcome = await ask(
        "Find the best ML model for this classification dataset", script, data=(data,), verify=True
    )
    assert outcome.ok, outcome.report
    assert (outcome.pattern, outcome.verified, outcome.untraced) == ("ensemble", True, ())
    assert any("DecisionTree" in cell.source for cell in engine.session(outcome.session_id).cells)
    assert script.used_up
