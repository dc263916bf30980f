"""Messages become outputs as nbclient stores them, at the same cost for each."""

from __future__ import annotations

import copy
from typing import Any

import nbformat
from hypothesis import given, settings
from hypothesis import strategies as st
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionComplete

from cellwright.notebook import OutputCollector

Message = tuple[str, dict[str, Any]]


def stream(text: str, name: str = "stdout") -> Message:
    return "stream", {"name": name, "text": text}


def display(text: str, display_id: str | None = None, kind: str = "display_data") -> Message:
    content: dict[str, Any] = {"data": {"text/plain": text}, "metadata": {"of": text}}
    content["transient"] = {"display_id": display_id} if display_id else None
    if kind == "execute_result":
        content["execution_count"] = 3
    return kind, content


def collect(*messages: Message) -> OutputCollector:
    collector = OutputCollector()
    for kind, content in messages:
        collector.add(kind, content)
    return collector


def texts(collector: OutputCollector) -> list[str]:
    return [
        output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"]
        for output in collector.outputs
    ]


def test_neighbouring_pieces_of_one_stream_become_one_output() -> None:
    collector = collect(stream("a"), stream("b\n"), stream("!", "stderr"), stream("c"))
    assert collector.outputs == [
        {"output_type": "stream", "name": "stdout", "text": "ab\n"},
        {"output_type": "stream", "name": "stderr", "text": "!"},
        {"output_type": "stream", "name": "stdout", "text": "c"},
    ]


def test_reading_in_between_changes_nothing() -> None:
    collector = OutputCollector()
    for piece in "abc":
        collector.add(*stream(piece))
        assert collector.outputs == collector.outputs
    assert texts(collector) == ["abc"]


def test_result_and_error_are_kept_with_the_prompt_number() -> None:
    error = {"ename": "E", "evalue": "v", "traceback": ["t"]}
    collector = collect(
        ("execute_input", {"execution_count": 3}), display("r", kind="execute_result"), ("error", error)
    )
    assert collector.execution_count == 3
    assert collector.outputs[0]["execution_count"] == 3
    assert collector.outputs[1] == {"output_type": "error", **error}
    assert "transient" not in collector.outputs[0]


def test_clearing_at_once_and_clearing_before_the_next_output() -> None:
    assert texts(collect(stream("a"), ("clear_output", {"wait": False}), stream("b"))) == ["b"]
    waiting = collect(stream("a"), ("clear_output", {"wait": True}))
    assert texts(waiting) == ["a"]
    waiting.add(*stream("b"))
    waiting.add(*stream("c"))
    assert texts(waiting) == ["bc"]


def test_update_reaches_every_display_of_its_id() -> None:
    collector = collect(
        display("1", "d"), display("2"), display("3", "d"), display("4", "d", "update_display_data")
    )
    assert texts(collector) == ["4", "2", "4"]
    assert collector.shows("d")
    assert not collector.shows("e")


def test_update_of_a_display_that_is_not_there_is_named_and_kept_only_where_that_is_wanted() -> None:
    updates = display("new", "d", "update_display_data"), display("newer", "d", "update_display_data")
    collector, late = OutputCollector(), OutputCollector(keeps_updates=True)
    assert {one.add(*update) for one in (collector, late) for update in updates} == {"d"}
    assert texts(collector) == []
    assert texts(late) == ["newer"]


def test_messages_that_are_no_output_are_passed_over() -> None:
    unknown = [("status", {"execution_state": "busy"}), ("comm_open", {"comm_id": "x"}), ("hologram", {})]
    assert collect(*unknown).outputs == []


messages = st.lists(
    st.one_of(
        st.builds(stream, st.text("ab\n", min_size=1, max_size=3), st.sampled_from(["stdout", "stderr"])),
        st.builds(
            display,
            st.text("xyz", max_size=2),
            st.sampled_from([None, "d", "e"]),
            st.sampled_from(["display_data", "execute_result", "update_display_data"]),
        ),
        st.sampled_from(
            [
                ("error", {"ename": "E", "evalue": "v", "traceback": ["t"]}),
                ("clear_output", {"wait": True}),
                ("clear_output", {"wait": False}),
                ("status", {"execution_state": "busy"}),
                ("execute_input", {"execution_count": 9, "code": ""}),
                ("unheard_of", {}),
            ]
        ),
    ),
    max_size=12,
)


@settings(max_examples=50, deadline=None)
@given(messages)
def test_a_cell_stores_what_nbclient_stores(said: list[Message]) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell()])
    client = NotebookClient(notebook, record_timing=False)
    client.reset_execution_trackers()
    client.clear_before_next_output = False
    (cell,) = notebook.cells
    collector = OutputCollector()
    for kind, content in said:
        _tell_nbclient(client, cell, 0, kind, content)
        collector.add(kind, copy.deepcopy(content))
    assert collector.execution_count == cell.execution_count
    assert collector.outputs == _coalesced(cell.outputs)
    cell.outputs = collector.outputs
    nbformat.validate(notebook)


def _tell_nbclient(client: NotebookClient, cell: Any, index: int, kind: str, content: dict[str, Any]) -> None:
    message = {
        "header": {"msg_type": kind},
        "msg_type": kind,
        "parent_header": {"msg_id": "m"},
        "content": copy.deepcopy(content),
    }
    try:
        client.process_message(message, cell, index)
    except CellExecutionComplete:
        raise AssertionError from None


def _coalesced(outputs: list[Any]) -> list[dict[str, Any]]:
    """What nbclient keeps as one output a message, joined as Jupyter's pages show it."""
    joined: list[dict[str, Any]] = []
    for output in outputs:
        last = joined[-1] if joined else {}
        if output["output_type"] == last.get("output_type") == "stream" and output["name"] == last["name"]:
            last["text"] += output["text"]
        else:
            joined.append(dict(output))
    return joined
