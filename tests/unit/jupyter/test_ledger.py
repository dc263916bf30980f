"""What is owed to executions when a connection is cut, without any connection."""

from __future__ import annotations

from itertools import combinations

import msgspec
import pytest

from cellwright.jupyter._channels import Ledger, Received
from cellwright.kernels.client import Message


def heard(number: int | None, kind: str, parent: str, **content: object) -> Received:
    channel = "shell" if kind.endswith("_reply") else "iopub"
    message = Message(channel, kind, parent, msgspec.json.encode(content), b"{}")  # type: ignore[arg-type]
    return Received(message, f"kernel_1_{number}" if number is not None else "no-number")


def kinds(messages: list[Message]) -> list[str]:
    return [message.kind for message in messages]


def test_a_cut_that_lost_nothing_is_not_spoken_of() -> None:
    ledger = Ledger()
    ledger.sent("e")
    ledger.heard(heard(3, "execute_input", "e", code="a"))
    ledger.heard(heard(4, "stream", "e", text="a"))
    ledger.cut()
    assert ledger.reconnected("p", after_s=1)
    assert kinds(ledger.heard(heard(5, "stream", "e", text="b"))) == ["stream"]
    assert kinds(ledger.heard(heard(7, "execute_reply", "e", status="ok"))) == ["execute_reply"]
    ledger.heard(heard(6, "stream", "e", text="c"))
    assert kinds(ledger.heard(heard(8, "status", "e", execution_state="idle"))) == ["status"]


def test_a_reply_that_comes_after_the_idle_it_was_sent_before_is_not_missing() -> None:
    ledger = Ledger()
    ledger.sent("e")
    ledger.heard(heard(3, "execute_input", "e", code="a"))
    ledger.heard(heard(4, "stream", "e", text="a"))
    ledger.cut()
    ledger.reconnected("p", after_s=1)
    ledger.heard(heard(5, "stream", "e", text="b"))
    assert kinds(ledger.heard(heard(7, "status", "e", execution_state="idle"))) == ["status"]
    assert kinds(ledger.heard(heard(6, "execute_reply", "e", status="ok"))) == ["execute_reply"]


PUBLISHED = [
    heard(5, "stream", "e", text="b"),
    heard(7, "status", "e", execution_state="idle"),
    heard(8, "status", "p", execution_state="busy"),
    heard(10, "status", "p", execution_state="idle"),
]
REPLIES = [heard(6, "execute_reply", "e", status="ok"), heard(9, "kernel_info_reply", "p", status="ok")]


@pytest.mark.parametrize("places", list(combinations(range(6), len(REPLIES))))
def test_nothing_is_missing_in_whatever_order_the_channels_are_heard(places: tuple[int, ...]) -> None:
    ledger = Ledger()
    ledger.sent("e")
    ledger.heard(heard(3, "execute_input", "e", code="a"))
    ledger.heard(heard(4, "stream", "e", text="a"))
    ledger.cut()
    ledger.reconnected("p", after_s=1)
    published, replies = iter(PUBLISHED), iter(REPLIES)
    told = [
        message
        for place in range(6)
        for message in ledger.heard(next(replies if place in places else published))
    ]
    assert sorted(kinds(told)) == ["execute_reply", "status", "stream"]


def test_a_late_reply_does_not_hide_output_that_is_missing() -> None:
    ledger = Ledger()
    ledger.sent("e")
    ledger.heard(heard(3, "execute_input", "e", code="a"))
    ledger.cut()
    ledger.reconnected("p", after_s=1)
    told, _ = ledger.heard(heard(7, "status", "e", execution_state="idle"))
    assert b"up to 2 messages" in told.content


def test_numbers_that_are_missing_after_a_cut_are_counted_and_told_before_the_end() -> None:
    ledger = Ledger()
    ledger.sent("e")
    ledger.heard(heard(3, "execute_input", "e", code="a"))
    ledger.heard(heard(4, "stream", "e", text="a"))
    ledger.cut()
    ledger.reconnected("p", after_s=2)
    ledger.heard(heard(9, "execute_reply", "e", status="ok"))
    told, idle = ledger.heard(heard(10, "status", "e", execution_state="idle"))
    assert b"up to 4 messages" in told.content
    assert b"2.0 s" in told.content
    assert idle.kind == "status"


def test_a_kernel_that_does_not_count_leaves_it_open_whether_something_is_missing() -> None:
    ledger = Ledger()
    ledger.sent("e")
    ledger.cut()
    ledger.reconnected("p", after_s=1)
    ledger.heard(heard(None, "execute_reply", "e", status="ok"))
    told, _ = ledger.heard(heard(None, "status", "e", execution_state="idle"))
    assert b"cannot be told" in told.content


def test_an_execution_whose_end_was_missed_is_over_when_the_probe_is_answered() -> None:
    ledger = Ledger()
    ledger.sent("e")
    ledger.cut()
    ledger.reconnected("p", after_s=1)
    assert ledger.heard(heard(8, "kernel_info_reply", "p", status="ok")) == []
    settled = ledger.heard(heard(9, "status", "p", execution_state="idle"))
    assert kinds(settled) == ["stream", "error", "execute_reply", "status"]
    assert {message.parent_id for message in settled} == {"e"}


def test_an_execution_that_was_sent_after_the_cut_is_not_settled_with_those_before_it() -> None:
    ledger = Ledger()
    ledger.sent("before")
    ledger.cut()
    ledger.reconnected("p", after_s=1)
    ledger.sent("after")
    ledger.heard(heard(8, "kernel_info_reply", "p", status="ok"))
    settled = ledger.heard(heard(9, "status", "p", execution_state="idle"))
    assert {message.parent_id for message in settled} == {"before"}


def test_nothing_is_asked_after_a_cut_in_which_nothing_ran() -> None:
    ledger = Ledger()
    ledger.cut()
    assert not ledger.reconnected("p", after_s=1)


def test_what_another_process_says_is_a_restart_and_what_a_server_says_for_the_kernel_is_none() -> None:
    ledger = Ledger()
    served = heard(0, "kernel_info_reply", "i", status="ok")
    ledger.heard(Received(served.message, "server_9_0"))
    said = heard(3, "execute_input", "e", code="a")
    ledger.heard(said)
    ledger.cut()
    assert ledger.reconnected("p", after_s=1)
    ledger.heard(Received(served.message, "server_9_1"))
    assert not ledger.restarted
    ledger.heard(Received(said.message, "kernel_2_3"))
    assert ledger.restarted


def test_what_a_server_drops_of_a_flood_is_counted_by_the_kernels_own_numbers() -> None:
    ledger = Ledger()
    ledger.sent("e")
    ledger.heard(heard(3, "execute_input", "e", code="a"))
    ledger.heard(heard(4, "stream", "e", text="a"))
    said = heard(0, "stream", "e", name="stderr", text="IOPub data rate exceeded.\nThe server")
    ledger.heard(Received(said.message, "server_9_0"))
    ledger.heard(heard(8, "stream", "e", text="b"))
    (idle,) = ledger.heard(heard(10, "status", "e", execution_state="idle"))
    assert msgspec.json.decode(idle.metadata) == {"cellwright": {"dropped_messages": 4}}
