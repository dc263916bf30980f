"""What the scenario asks for, as an agent does it: over MCP, on data that a server on loopback has."""

from __future__ import annotations

import base64
import json
import random
import re
import statistics
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from mcp import Client
from mcp.client.subscriptions import ResourceUpdated
from mcp.types import CallToolResult, TextResourceContents

from cellwright.mcp import McpServer
from cellwright.tools.data_directory import DataDirectory
from tests.kernel.engine.conftest import end_host, open_at
from tests.kernel.mcp.conftest import PACE, connected, data_of, images_of, running, text_of
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio

GENRES = ("Drama", "Crime", "Comedy", "Action", "Science Fiction")
PNG = b"\x89PNG"


def _movies() -> list[dict[str, Any]]:
    chance = random.Random(100)
    return [
        {
            "rank": rank,
            "title": f"Movie {rank}",
            "year": chance.randint(1950, 2020),
            "rating": round(9.3 - rank * 0.012, 2),
            "genre": chance.choices(GENRES, weights=(8, 4, 3, 3, 2))[0],
        }
        for rank in range(1, 101)
    ]


def _prices() -> list[dict[str, Any]]:
    chance = random.Random(31)
    bitcoin, ether, found = 60_000.0, 3_000.0, []
    for day in range(1, 32):
        bitcoin *= 1 + chance.uniform(-0.03, 0.035)
        ether *= 1 + chance.uniform(-0.04, 0.045)
        found.append({"date": f"2026-10-{day:02d}", "bitcoin": round(bitcoin, 2), "ether": round(ether, 2)})
    return found


MOVIES = _movies()
PRICES = _prices()
PRODUCTS = {"kettle": (39.90, 34.50), "toaster": (24.00, 29.95), "lamp": (18.75, 18.20)}
SHOPS = ("north", "south")
STATES = {
    "California": 39_538_223,
    "Texas": 29_145_505,
    "Florida": 21_538_187,
    "Wyoming": 576_851,
    "Vermont": 643_077,
}


def _page(shop: str, product: str) -> str:
    price = PRODUCTS[product][SHOPS.index(shop)]
    return (
        f"<html><head><title>{product} | {shop}</title><script>let price = 1</script></head><body>"
        f"<nav><a href='/'>Home</a></nav><main><h1>{product.title()}</h1>"
        f"<p class='price'>Price: <b>${price:.2f}</b></p>"
        f"<table><tr><th>Field</th><th>Value</th></tr><tr><td>Shop</td><td>{shop}</td></tr></table>"
        "</main></body></html>"
    )


PAGES = {
    "/movies/top100.json": ("application/json", json.dumps(MOVIES)),
    "/prices.json": ("application/json", json.dumps({"currency": "USD", "prices": PRICES})),
    "/states.csv": (
        "text/csv",
        "state,population\n" + "".join(f"{name},{people}\n" for name, people in STATES.items()),
    ),
    **{
        f"/{shop}/{product}.html": ("text/html; charset=utf-8", _page(shop, product))
        for shop in SHOPS
        for product in PRODUCTS
    },
}


class _Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        kind, content = PAGES.get(self.path, ("text/plain", ""))
        body = content.encode()
        self.send_response(200 if content else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # the base's name
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """Where the scenario's data is to be had."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Site) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@dataclass(frozen=True)
class Agent:
    """Whoever has the tools and nothing else. Looks at what came only where a test says so."""

    client: Client
    site: str
    data: Path

    async def call(self, tool: str, **arguments: Any) -> CallToolResult:
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, text_of(result)
        return result

    async def fetch(self, page: str, **more: Any) -> str:
        return text_of(await self.call("web_fetch", url=self.site + page, **more))

    async def python(self, code: str, **more: Any) -> CallToolResult:
        result = await self.call("python_execute", code=code, **more)
        assert "success: true · returnCode: 0" in text_of(result), text_of(result)
        return result

    async def said(self, code: str, **more: Any) -> str:
        return text_of(await self.python(code, **more))


@pytest.fixture(scope="module")
async def agent(site: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Agent]:
    root = tmp_path_factory.mktemp("scenario")
    opened = {
        "network": "allow",
        "network_allow": [site.removeprefix("http://")],
        "fetch_interval_s": 0,
    }
    async with (
        open_at(root, **opened) as engine,
        running(McpServer(engine, pace=PACE)) as face,
        connected(face, "2026-07-28") as client,
    ):
        yield Agent(client, site, DataDirectory.of(engine).root)
    end_host(root / "state")


def pictures_of(result: CallToolResult) -> list[bytes]:
    return [base64.b64decode(image.data) for image in images_of(result)]


async def test_the_hundred_best_movies_by_genre(agent: Agent) -> None:
    fetched = await agent.fetch("/movies/top100.json", type="json", workingDir="movies", path="top100.json")
    assert "Movie 1" in fetched
    said = await agent.said(
        """
import pandas as pd

movies = pd.read_json("top100.json")
counts = movies["genre"].value_counts().rename_axis("genre").reset_index(name="movies")
counts.to_csv("genres.csv", index=False)
print(len(movies), "movies;", dict(zip(counts["genre"], counts["movies"])))
""",
        packages=["pandas"],
        workingDir="movies",
    )
    counts = Counter(movie["genre"] for movie in MOVIES)
    assert "100 movies" in said
    assert all(f"'{genre}': {count}" in said for genre, count in counts.items())
    assert "movies/genres.csv (csv" in said
    shown = await agent.call(
        "visualize",
        file="movies/genres.csv",
        type="bar_chart",
        options={"x": "genre", "y": "movies", "title": "Top 100 movies by genre"},
    )
    assert "sum of all bars: 100" in text_of(shown)
    (picture,) = pictures_of(shown)
    assert picture.startswith(PNG)


async def test_prices_with_moving_averages_and_their_trend(agent: Agent) -> None:
    await agent.fetch("/prices.json", type="json", workingDir="prices", path="prices.json")
    result = await agent.python(
        """
import json

import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

with open("prices.json") as file:
    prices = pd.DataFrame(json.load(file)["prices"])
prices["date"] = pd.to_datetime(prices["date"])
for coin in ("bitcoin", "ether"):
    prices[f"{coin}_7"] = prices[coin].rolling(7).mean().round(2)
prices.to_csv("trend.csv", index=False)
axes = prices.plot(x="date", y=["bitcoin", "bitcoin_7"], title="Bitcoin in October", ylabel="USD")
axes.figure.savefig("plot.png", bbox_inches="tight")
manifest = {
    "version": "1.0",
    "outputs": [
        {
            "id": "trend",
            "type": "line_chart",
            "title": "Bitcoin and its 7-day average",
            "dataFile": "trend.csv",
            "config": {"xColumn": "date", "yColumn": ["bitcoin", "bitcoin_7"], "yLabel": "USD"},
        }
    ],
}
with open("visualization_manifest.json", "w") as file:
    json.dump(manifest, file)
print("last average", prices["bitcoin_7"].iloc[-1])
""",
        packages=["pandas", "matplotlib"],
        workingDir="prices",
    )
    said = text_of(result)
    average = statistics.fmean(day["bitcoin"] for day in PRICES[-7:])
    assert float(re.findall(r"last average ([\d.]+)", said)[0]) == pytest.approx(average, abs=0.01)
    assert "prices/plot.png (image" in said
    assert "visualization trend: line_chart: Bitcoin and its 7-day average" in said
    assert pictures_of(result)
    assert (agent.data / "prices" / "plot.png").read_bytes().startswith(PNG)


async def test_two_files_merged_on_their_id_and_exported(agent: Agent) -> None:
    await agent.call(
        "file_system", action="write", path="merge/people.csv", content="id,name\n1,Ada\n2,Grace\n3,Edsger\n"
    )
    orders = [{"id": 2, "total": 30}, {"id": 1, "total": 12}, {"id": 2, "total": 8}, {"id": 9, "total": 1}]
    await agent.call("file_system", action="write", path="merge/orders.json", content=json.dumps(orders))
    said = await agent.said(
        """
import pandas as pd

merged = pd.read_csv("people.csv").merge(pd.read_json("orders.json"), on="id")
merged.to_csv("merged.csv", index=False)
print(len(merged), "rows")
""",
        workingDir="merge",
    )
    assert "3 rows" in said
    assert (
        agent.data / "merge" / "merged.csv"
    ).read_text() == "id,name,total\n1,Ada,12\n2,Grace,30\n2,Grace,8\n"
    digest = text_of(await agent.call("file_system", action="read", path="merge/merged.csv"))
    assert "Grace" in digest
    content = (await agent.client.read_resource("cellwright://data/merge/merged.csv")).contents[0]
    assert isinstance(content, TextResourceContents)
    assert content.text.startswith("id,name,total\n")


async def test_the_correlation_of_variables_as_a_heatmap(agent: Agent) -> None:
    said = await agent.said(
        """
import numpy as np
import pandas as pd

chance = np.random.default_rng(7)
spend = chance.normal(100, 15, 200)
frame = pd.DataFrame({"spend": spend, "sales": 3 * spend + chance.normal(0, 20, 200), "noise": chance.normal(size=200)})
frame["returns"] = -frame["sales"] + chance.normal(0, 10, 200)
table = frame.corr().round(3).rename_axis("variable").reset_index()
table.to_csv("correlation.csv", index=False)
print(table.to_string(index=False))
""",
    )
    (path,) = re.findall(r"runs/\S+/correlation\.csv", said)
    shown = await agent.call(
        "visualize",
        file=path,
        type="heatmap",
        options={"x": "variable", "y": ["spend", "sales", "noise", "returns"], "title": "Correlation"},
    )
    assert text_of(shown).startswith("heatmap correlation")
    assert len(pictures_of(shown)) == 1


async def test_product_pages_scraped_and_their_prices_compared(agent: Agent) -> None:
    found = []
    for shop in SHOPS:
        for product in PRODUCTS:
            page = await agent.fetch(f"/{shop}/{product}.html")
            (price,) = re.findall(r"Price: \**\$(\d+\.\d\d)", page)
            assert f"| Shop | {shop} |" in page, "tables are kept"
            assert "let price" not in page, "scripts are not"
            found.append({"product": product, "shop": shop, "price": float(price)})
    said = await agent.said(
        f"""
import pandas as pd

prices = pd.DataFrame({found!r}).pivot(index="product", columns="shop", values="price")
prices["cheaper"] = prices.idxmin(axis=1)
print(prices.to_string())
"""
    )
    for product, (north, south) in PRODUCTS.items():
        assert re.search(rf"{product} .*{'north' if north < south else 'south'}$", said, re.MULTILINE)
    shown = await agent.call(
        "visualize",
        data=found,
        type="bar_chart",
        options={"x": "product", "y": "price", "group": "shop", "title": "Prices by shop"},
        workingDir="products",
    )
    assert "north" in text_of(shown)
    assert len(pictures_of(shown)) == 1


async def test_a_page_is_scraped_by_code_from_the_file_that_was_fetched(agent: Agent) -> None:
    saved = await agent.fetch("/north/kettle.html", type="file", workingDir="scraped", path="kettle.html")
    assert "Saved to scraped/kettle.html; scripts open it by this name with workingDir='.'" in saved
    said = await agent.said(
        """
from bs4 import BeautifulSoup

with open("kettle.html") as page:
    print(BeautifulSoup(page, "html.parser").select_one("p.price b").text)
""",
        packages=["beautifulsoup4"],
        workingDir="scraped",
    )
    assert "$39.90" in said


async def test_the_sum_of_squares_from_1_to_100_in_three_ways(agent: Agent) -> None:
    assert "338350" in await agent.said("print(sum(number ** 2 for number in range(1, 101)))")
    node = await agent.call(
        "node_execute",
        code="console.log(Array.from({ length: 100 }, (_, i) => (i + 1) ** 2).reduce((a, b) => a + b))",
    )
    assert "338350" in text_of(node)
    calculated = await agent.call("calculator", expression="sum(k^2 for k in 1..100)")
    assert "338350" in text_of(calculated)


REVENUE = """
import pandas as pd
import json

# Generate data
df = pd.DataFrame({
    'month': ['Jan', 'Feb', 'Mar', 'Apr'],
    'revenue': [10000, 12000, 15000, 18000]
})

# Save data
df.to_csv('revenue_data.csv', index=False)

# Create visualization manifest
manifest = {
    "version": "1.0",
    "outputs": [
        {
            "id": "revenue_table",
            "type": "table",
            "title": "Monthly Revenue",
            "dataFile": "revenue_data.csv"
        },
        {
            "id": "revenue_chart",
            "type": "bar_chart",
            "title": "Revenue Trend",
            "dataFile": "revenue_data.csv",
            "config": {
                "xColumn": "month",
                "yColumn": "revenue",
                "xLabel": "Month",
                "yLabel": "Revenue ($)"
            }
        }
    ]
}

# Save manifest
with open('visualization_manifest.json', 'w') as f:
    json.dump(manifest, f, indent=2)

print("SUCCESS: Generated visualization manifest")
"""


async def test_the_revenue_example_as_it_is_written(agent: Agent) -> None:
    result = await agent.python(REVENUE, packages=["pandas"])
    said = text_of(result)
    assert "SUCCESS: Generated visualization manifest" in said
    assert re.search(r"runs/\S+/revenue_data\.csv \(csv", said)
    assert "visualization revenue_table: table: Monthly Revenue" in said
    assert "visualization revenue_chart: bar_chart: Revenue Trend" in said
    assert "18,000" in said
    (chart,) = pictures_of(result)
    assert chart.startswith(PNG)


async def test_the_revenue_example_in_the_shape_that_callers_expect(agent: Agent) -> None:
    result = await agent.call("python_execute", code=REVENUE, packages=["pandas"], response_format="json")
    data = data_of(result)
    assert (data["success"], data["returnCode"], data["stderr"]) == (True, 0, "")
    assert data["stdout"] == "SUCCESS: Generated visualization manifest\n"
    assert isinstance(data["executionTime"], int)
    files = {file["filename"]: file for file in data["files"]}
    assert files["revenue_data.csv"]["type"] == "csv"
    assert (
        files["revenue_data.csv"]["size"] == (agent.data / files["revenue_data.csv"]["path"]).stat().st_size
    )
    assert data["visualizations"]["version"] == "1.0"
    outputs = data["visualizations"]["outputs"]
    assert [one["type"] for one in outputs] == ["table", "bar_chart"]
    assert outputs[1]["config"]["yLabel"] == "Revenue ($)"


async def test_states_ranked_by_population(agent: Agent) -> None:
    await agent.fetch("/states.csv", type="file", workingDir="states", path="states.csv")
    said = await agent.said(
        """
import csv

with open("states.csv") as file:
    states = sorted(csv.DictReader(file), key=lambda row: -int(row["population"]))
for rank, row in enumerate(states, start=1):
    print(rank, row["state"], row["population"])
""",
        workingDir="states",
    )
    ranked = sorted(STATES, key=lambda name: -STATES[name])
    assert re.findall(r"^\d (\w+) \d+$", said, re.MULTILINE) == ranked


async def test_sales_grouped_by_region(agent: Agent) -> None:
    sales = [("north", 10), ("south", 7), ("north", 5), ("west", 3), ("south", 1)]
    content = "region,amount\n" + "".join(f"{region},{amount}\n" for region, amount in sales)
    await agent.call("file_system", action="write", path="sales/sales.csv", content=content)
    said = await agent.said(
        """
import pandas as pd

totals = pd.read_csv("sales.csv").groupby("region", as_index=False)["amount"].sum()
totals.to_json("totals.json", orient="records")
print(totals.to_dict("records"))
""",
        workingDir="sales",
    )
    assert "{'region': 'north', 'amount': 15}" in said
    shown = await agent.call(
        "visualize",
        file="sales/totals.json",
        type="pie_chart",
        options={"label": "region", "value": "amount"},
    )
    assert "amount in all: 26" in text_of(shown)


async def test_temperature_against_ice_cream_as_a_scatter_diagram(agent: Agent) -> None:
    temperatures = list(range(10, 36))
    records = [
        {"temperature": degrees, "ice_cream": 20 + 9 * degrees + degrees % 5} for degrees in temperatures
    ]
    shown = await agent.call(
        "visualize",
        data=records,
        type="scatter",
        options={
            "x": "temperature",
            "y": "ice_cream",
            "x_label": "Temperature (°C)",
            "y_label": "Ice cream sold",
            "title": "Warm days sell ice cream",
        },
        workingDir="ice",
    )
    assert "correlation: 1.00" in text_of(shown)
    assert "26 points" in text_of(shown)
    (picture,) = pictures_of(shown)
    assert picture.startswith(PNG)


async def test_what_any_tool_leaves_is_told_and_listed(agent: Agent) -> None:
    changed: set[str] = set()
    everything = {
        "cellwright://data/told/states.csv",
        "cellwright://data/told/written.txt",
        "cellwright://data/told/left.json",
    }
    async with agent.client.listen(resource_subscriptions=sorted(everything)) as events:
        await agent.fetch("/states.csv", type="file", workingDir="told", path="states.csv")
        await agent.call("file_system", action="write", path="told/written.txt", content="here")
        await agent.python("open('left.json', 'w').write('[1]')", workingDir="told")
        with fail_after():
            async for event in events:
                if isinstance(event, ResourceUpdated):
                    changed.add(event.uri)
                if changed == everything:
                    break
    listed = {one.uri for one in (await agent.client.list_resources()).resources}
    assert everything <= listed


async def test_an_error_is_told_so_that_the_next_attempt_can_mend_it(agent: Agent) -> None:
    code = "import pandas as pd\nprint(pd.read_csv('sales2.csv')['amount'].sum())"
    first = text_of(await agent.call("python_execute", code=code, workingDir="mended"))
    assert "success: false · returnCode: 1" in first
    assert "FileNotFoundError" in first
    await agent.call("file_system", action="write", path="mended/sales2.csv", content="amount\n1\n2\n")
    assert "\n3" in await agent.said(code, workingDir="mended")
