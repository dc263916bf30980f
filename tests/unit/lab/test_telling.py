"""What JupyterLab is told of a session's events."""

from __future__ import annotations

from typing import Any

from cellwright.engine import Event
from cellwright.engine.records import ExecutionRecord, Requester
from cellwright.lab._channels import messages_for

RAN = ExecutionRecord(
    id="x-1",
    session_id="s",
    cell_id="a",
    number=1,
    generation=1,
    attempt=1,
    source="",
    queued_at=0.0,
    asker=Requester("window", "request"),
)


def late(kind: str, content: dict[str, Any], **more: Any) -> list[tuple[str, Any]]:
    data = {"type": kind, "content": content, "first": False, **more}
    event = Event(1, 0.0, "notebook.cell.late_output", "s", 1, "a", "x-1", data)
    said = messages_for(event, RAN, "window")
    assert all(one.parent is not None and one.parent.msg_id == "request" for one in said)
    return [(one.kind, one.content) for one in said]


def test_what_came_after_a_cells_end_is_marked_once_and_follows_its_outputs() -> None:
    words = {"name": "stdout", "text": "late"}
    mark, said = late("stream", words, first=True)
    assert "after this cell's end" in mark[1]["text"]
    assert said == ("stream", words)
    assert late("stream", words) == [("stream", words)]


def test_nothing_that_came_after_a_cells_end_changes_what_lab_shows_of_it() -> None:
    assert late("clear_output", {"wait": False}) == []
    update = {"data": {"text/plain": "new"}, "metadata": {}, "transient": {"display_id": "d"}}
    assert late("update_display_data", update) == [("display_data", {**update, "transient": {}})]
