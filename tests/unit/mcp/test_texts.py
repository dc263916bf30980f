"""The pure parts: budgets, frames, outputs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.cli._terminal import in_commands
from cellwright.formats.markup import text_of_html
from cellwright.mcp._tool_names import ToolNames, in_calls
from cellwright.mcp.outputs import (
    cell_output_uri,
    clean,
    frame_digest,
    output_uri,
    parts_of,
    read_address,
    session_uri,
)
from cellwright.mcp.tools.read import dependencies_of
from cellwright.notebook import Document, NotebookMetadataSet
from cellwright.text_budget import cut_middle, share


@settings(deadline=None)
@given(st.lists(st.integers(0, 10_000), max_size=20), st.integers(0, 20_000))
def test_shares_keep_to_the_budget_and_leave_short_texts_whole(lengths: list[int], budget: int) -> None:
    shares = share(lengths, budget)
    assert sum(shares) <= max(budget, 0)
    assert all(given <= length for given, length in zip(shares, lengths, strict=True))
    if sum(lengths) <= budget:
        assert shares == lengths


@settings(deadline=None)
@given(st.text(max_size=3_000), st.integers(0, 2_000))
def test_a_cut_text_keeps_its_head_and_tail_and_counts_the_rest(text: str, limit: int) -> None:
    cut = cut_middle(text, limit, rest="there")
    if cut != text:
        assert len(cut) <= max(limit, 120) + 80
        assert "characters left out; all of it: there" in cut
        assert cut[0] == text.rstrip()[0] or not text.strip()


def test_packages_of_a_srcbook_are_named_as_they_are_installed() -> None:
    packages = {"zod": "^3", "lodash": "*", "@scope/x": "1.2.0", "own": "file:../own"}
    document = Document.new(language="typescript")
    document.apply(NotebookMetadataSet({"cellwright": {"package": {"dependencies": packages}}}))
    assert dependencies_of(document) == ["zod@^3", "lodash", "@scope/x@1.2.0", "own"]
    for odd in ({"dependencies": ["zod"]}, {}, "zod"):
        document.apply(NotebookMetadataSet({"cellwright": {"package": odd}}))
        assert dependencies_of(document) == []


def test_terminal_text_is_told_as_it_stands_in_the_end() -> None:
    assert clean("\x1b[31mred\x1b[0m\n10%\r20%\r\nnext") == "red\n20%\nnext"


def test_every_output_is_told_in_one_form() -> None:
    html = '<table class="dataframe"><thead><tr><th></th><th>a</th></tr></thead><tbody><tr><th>0</th><td>1</td></tr></tbody></table>'
    outputs: list[dict[str, Any]] = [
        {
            "output_type": "display_data",
            "data": {"image/png": "aGk=", "text/plain": "<Figure size 1x1 with 0 Axes>"},
        },
        {"output_type": "execute_result", "data": {"text/html": html, "text/plain": "   a\n0  1"}},
        {"output_type": "display_data", "data": {"text/html": "<b>bold</b> <script>evil()</script>"}},
        {"output_type": "display_data", "data": {"application/x-unknown": "..."}},
        {"output_type": "hologram", "beam": 7},
    ]
    parts = parts_of(outputs)
    assert [part.text for part in parts] == ["", "   a\n0  1", "bold", "", ""]
    assert parts[0].picture == "aGk="


def test_what_the_kernel_said_of_a_value_is_told_instead_of_its_text() -> None:
    metadata = {"cellwright": {"digest": "a table of everything"}}
    outputs: list[dict[str, Any]] = [
        {"output_type": "execute_result", "data": {"text/plain": "x" * 900}, "metadata": metadata},
        {
            "output_type": "display_data",
            "data": {"image/png": "aGk=", "text/plain": "<Figure size 1x1 with 0 Axes>"},
            "metadata": metadata,
        },
        {"output_type": "execute_result", "data": {"text/plain": "x"}, "metadata": {"cellwright": "?"}},
    ]
    assert [part.text for part in parts_of(outputs)] == ["a table of everything"] * 2 + ["x"]
    assert parts_of(outputs)[1].picture == "aGk="


def test_charts_that_are_plain_data_are_told_in_words() -> None:
    plotly = {
        "data": [
            {"type": "bar", "name": "units", "x": ["a", "b"], "y": {"dtype": "i2", "bdata": "AQACAA=="}},
            {"type": "pie", "labels": ["a"], "values": [1]},
        ],
        "layout": {"title": {"text": "Sales"}, "xaxis": {"title": {"text": "shop"}}},
    }
    vega = {
        "mark": {"type": "bar"},
        "title": "Sales",
        "encoding": {"x": {"field": "shop"}, "y": {"aggregate": "sum", "field": "units"}},
        "datasets": {"d": [{"shop": "a"}] * 3},
    }
    outputs: list[dict[str, Any]] = [
        {
            "output_type": "display_data",
            "data": {"application/vnd.plotly.v1+json": plotly, "text/html": "<div>"},
        },
        {
            "output_type": "display_data",
            "data": {"application/vnd.vegalite.v5+json": vega, "text/plain": "<Chart>"},
        },
        {
            "output_type": "display_data",
            "data": {"application/vnd.plotly.v1+json": {"data": 3, "layout": []}},
        },
    ]
    assert [part.text for part in parts_of(outputs)] == [
        "plotly figure; 'Sales'; x: 'shop'\nbar 'units' of x 2, y 2\npie of labels 1, values 1",
        "Vega chart; 'Sales'; 3 rows\nbar x: shop, y: sum(units)",
        "plotly figure",
    ]


def test_a_frame_with_levels_gaps_and_an_index_is_digested() -> None:
    rows = "".join(f"<tr><th>{i}</th><td>{i}.5</td><td>...</td><td>True</td></tr>" for i in range(5))
    html = (
        '<table border="1" class="dataframe"><thead><tr><th></th><th>x</th><th>...</th><th>flag</th></tr></thead>'
        f"<tbody>{rows}</tbody></table><p>5 rows \u00d7 70 columns</p>"
    )
    assert frame_digest(html) == (
        "table, 5 rows \u00d7 70 columns\n"
        "x: number, 0.5 … 4.5\n"
        "flag: bool, 1 distinct: True\n"
        "… 68 more columns\n"
        "rows: 0.5 | True\n"
        "      1.5 | True"
    )
    assert frame_digest("<table><tr><td>plain</td></tr></table>") is None
    assert text_of_html("<p>a<br>b</p><style>x{}</style>") == "a\nb"


@pytest.mark.parametrize("cell_id", ["abc", "a b/c", "ünï"])
def test_addresses_are_read_back(cell_id: str) -> None:
    cell = read_address(cell_output_uri("s-1", cell_id, 3))
    assert cell is not None
    assert (cell.view, cell.item, cell.index) == ("cell", cell_id, 3)
    execution = read_address(output_uri("s-1", "x-1", 0))
    assert execution is not None
    assert execution.view == "execution"
    assert read_address(session_uri("s-1", "state")) is not None
    assert read_address("notebook://elsewhere") is None


def test_every_row_of_a_frame_with_two_levels_of_index_is_digested() -> None:
    html = (
        '<table border="1" class="dataframe"><thead><tr><th></th><th></th><th>n</th></tr>'
        "<tr><th>shop</th><th>year</th><th></th></tr></thead><tbody>"
        '<tr><th rowspan="2">a</th><th>2025</th><td>1</td></tr><tr><th>2026</th><td>2</td></tr>'
        '<tr><th rowspan="2">b</th><th>2025</th><td>3</td></tr><tr><th>2026</th><td>40</td></tr>'
        "</tbody></table>"
    )
    digest = frame_digest(html)
    assert digest is not None
    assert "shop: text, 2 distinct: a, b" in digest
    assert "n: number, 1 … 40" in digest
    assert "a | 2026 | 2" in digest


@pytest.mark.parametrize(
    ("verbs", "calls"),
    [
        ("`cellwright host start --name gpu-2` asks for one", "host_start(host='slurm:gpu-2') asks for one"),
        ("`cellwright host start` asks for another", "host_start asks for another"),
        ("look with `cellwright host list`", "look with host_list"),
        ("Wait with `cellwright host wait`", "Wait with host_list(wait_s=60)"),
    ],
)
def test_agents_read_tools_where_people_read_verbs(verbs: str, calls: str) -> None:
    assert in_calls(verbs) == calls
    assert in_commands(calls) == verbs


NAMES = ToolNames(
    frozenset({"notebook_create", "notebook_list", "notebook_replay", "session_context", "host_list", "ask"}),
    frozenset({"start_new_notebook", "execution_wait"}),
    {"notebook_create": "start_new_notebook"},
)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("There are none yet: call notebook_create", "There are none yet: call start_new_notebook"),
        ("Make one with `notebook_create(name='x')`.", "Make one with start_new_notebook."),
        ("Perhaps: s-1. notebook_list(filter='all') has them all", "Perhaps: s-1."),
        ("Names are gone; notebook_replay brings them back", "Names are gone"),
        (
            "`notebook_replay` brings it back. The next one starts a new kernel",
            "The next one starts a new kernel",
        ),
        ("new variables a, b… (session_context has all)", "new variables a, b…"),
        ("Its kernels go on; look with `cellwright host list`", "Its kernels go on"),
        ("Or ask for host `slurm`: execution_wait('x-1')", "Or ask for host `slurm`: execution_wait('x-1')"),
        ("notebook_list", ""),
    ],
)
def test_a_client_reads_its_own_tools_and_nothing_of_those_that_it_lacks(ours: str, theirs: str) -> None:
    assert NAMES.say(ours) == theirs


@pytest.mark.parametrize(
    ("kernels", "clients"),
    [
        (
            "No module named 'seaborn'. It is approved: package_install([\"seaborn\"]) installs it",
            "No module named 'seaborn'",
        ),
        (
            'Code cannot install x. package_install(["x"]) installs approved packages, which can be imported at once',
            "Code cannot install x",
        ),
        (
            "SQL needs `pip install 'cellwright[sql]'`, or package_install([\"duckdb\"])",
            "SQL needs `pip install 'cellwright[sql]'`",
        ),
        (
            'The npm package "a" is not installed here. package_install(["npm:a"]) installs it, if it is approved',
            'The npm package "a" is not installed here',
        ),
        ("the user's own package_install(x)", "the user's own package_install(x)"),
    ],
)
def test_an_error_advises_to_install_packages_only_where_the_client_has_a_tool_for_it(
    kernels: str, clients: str
) -> None:
    lacks = ToolNames(frozenset({"package_install"}), frozenset({"execute_code"}))
    assert lacks.say_error(kernels) == clients
    assert (
        ToolNames(frozenset({"package_install"}), frozenset({"package_install"})).say_error(kernels)
        == kernels
    )


@pytest.mark.parametrize("opened", ["<img ", "<div title='", "<!--", "<!--x>", "<![CDATA[x>", "</", "<?"])
def test_a_million_letters_of_what_is_left_open_are_read_in_one_pass(opened: str) -> None:
    assert text_of_html(f"<p>before</p>{opened * (1_000_000 // len(opened))}") == "before"


def test_what_only_looks_like_a_tag_stays() -> None:
    assert text_of_html("<!-- a --> 1 < 2 <3 &lt;b <b>x</b> 4 < 5") == "1 < 2 <3 <b x 4 < 5"
