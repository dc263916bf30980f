"""Digests of plugins: found by a value's real type, bounded, and dropped where they fail, with the value still told."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from types import ModuleType
from typing import Any

import pytest

from cellwright.plugins.registry import registry
from cellwright_kernel import _value_digests
from cellwright_kernel._value_digests import Digests

ASKED: list[str] = []
"""What was asked of a type or a value, and might have been the user's code."""


class Lies(type):
    def __getattribute__(cls, name: str) -> Any:
        ASKED.append(name)
        return super().__getattribute__(name)


class Base:
    pass


class Thing(Base, metaclass=Lies):
    def __getattribute__(self, name: str) -> Any:
        ASKED.append(name)
        return super().__getattribute__(name)


class Rows(list[int]):
    pass


def tell(_: object) -> str:
    return "a thing"


def tell_much(_: object) -> str:
    return "\ud800" * 5_000


def tell_nothing(_: object) -> None:
    return None


def raise_error(_: object) -> str:
    raise SystemExit("out")


def give_junk(_: object) -> Any:
    return ["junk"]


class Mute(Exception):
    def __str__(self) -> str:
        hang(self)
        return ""


def raise_mute(_: object) -> str:
    raise Mute


def hang(_: object) -> str:
    while True:
        with contextlib.suppress(Exception):
            time.sleep(1_000)


@pytest.fixture(autouse=True)
def acme(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("acme")
    vars(module).update(Thing=Thing, Base=Base, Rows=Rows)
    monkeypatch.setitem(sys.modules, "acme", module)


def digests(**places: str) -> Digests:
    made = Digests(plugin_s=0.05)
    made.register({f"acme.{name}": f"{__name__}:{function}" for name, function in places.items()})
    return made


def test_the_digest_of_the_nearest_type_tells_a_value_and_asks_neither_type_nor_value() -> None:
    one, thing = digests(Thing="tell"), Thing()
    ASKED.clear()
    told, asked = one.hidden(thing), list(ASKED)
    assert (told, asked) == ("a thing", [])
    assert digests(Base="tell", Thing="tell_nothing").of(Thing()) == "a thing"
    assert digests(Thing="tell").of(Base()) is None
    assert digests(Rows="tell").of(Rows()) == "a thing"
    assert digests(Rows="tell").of([1]) == Digests().of([1])


def test_a_long_digest_is_cut_to_what_can_be_sent() -> None:
    told = digests(Thing="tell_much").of(Thing())
    assert told == "?" * _value_digests.MAX_CHARACTERS


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("raise_error", "raised SystemExit: out"),
        ("give_junk", "returned list, and not text"),
        ("hang", "did not end within 0.05 s"),
        ("raise_mute", "raised tests.unit.tables.test_plugin_digests.Mute"),
        ("is_not_there", "raised AttributeError"),
    ],
)
def test_one_that_fails_is_dropped_and_named_once_and_the_next_type_tells(function: str, reason: str) -> None:
    before = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0] > 0
    one = digests(Thing=function, Base="tell")
    assert [one.of(Thing()), one.of(Thing())] == ["a thing", "a thing"]
    (failure,) = one.take_failures()
    assert reason in failure["reason"]
    assert (failure["name"], failure["hangs"]) == ("acme.Thing", function == "hang")
    assert one.take_failures() == []
    assert (signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0] > 0) == before


def test_a_module_that_this_interpreter_lacks_is_no_failure() -> None:
    one = Digests()
    one.register({"acme.Thing": "not_installed_here.digests:tell"})
    assert one.of(Thing()) is None
    assert one.take_failures() == []


def test_ours_are_in_a_kernel_as_they_are_registered_and_go_where_they_are_out() -> None:
    registered = {plugin.entry.name: made for plugin, made in registry().every("digests")}
    assert {name: row.tell for name, row in _value_digests._own_rows().items()} == registered
    one = Digests()
    one.register({"builtins.list": ""})
    assert one.of([{"a": 1}] * 50) is None
    assert one.of({"a": [1] * 50}) is not None
