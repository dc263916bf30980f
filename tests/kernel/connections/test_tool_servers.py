"""Brokers at a real MCP server, started here and at an address: its tools are called by name, and the token stays outside."""

from __future__ import annotations

import os
import select
from typing import Any

import pytest

from cellwright.connections.broker import Broker
from cellwright.connections.digests import schema_digest
from cellwright.connections.known import lent
from cellwright.errors import ConnectionFailed
from cellwright.settings.model import ConnectionSettings
from tests.kernel.connections.test_brokers import opened
from tests.support.connections.servers import SECRET, TRACKER, tracker
from tests.waiting import scaled

pytestmark = pytest.mark.anyio

UNHURRIED = {"timeout_s": scaled(50)}


async def called(broker: Broker, operation: str, /, **arguments: Any) -> Any:
    request = {"do": "call", "operation": operation, "arguments": arguments}
    return (await broker.ask(request)).value()["result"]


async def refusal(broker: Broker, operation: str, /, **arguments: Any) -> str:
    with pytest.raises(ConnectionFailed) as failed:
        await called(broker, operation, **arguments)
    return str(failed.value)


async def test_a_server_that_is_started_has_the_tools_that_read_and_ends_with_its_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRACKER_TOKEN", SECRET)
    async with opened(command=TRACKER, password_env="TRACKER_TOKEN", **UNHURRIED) as broker:  # noqa: S106  # a name
        told = schema_digest((await broker.ask({"do": "schema", "search": "issue"})).value(), 100)
        assert told.splitlines() == [
            'issues(state: "open"|"closed"): The issues in a state.',
            "issue(operation*: string): One issue, by an argument that is called as ours is.",
        ]
        assert await called(broker, "issues", state="closed") == {"issues": ["Lost"]}
        assert await called(broker, "issue", operation="Slow") == "Slow: all is said"
        words, picture = await called(broker, "picture")
        assert (words["text"], picture["type"]) == ("one pixel", "image")
        assert "not annotated as read-only" in await refusal(broker, "add", title="New")
        assert "no operation 'none'" in await refusal(broker, "none")
        assert "there is no issue Odd" in await refusal(broker, "issue", operation="Odd")
        assert "operation" in await refusal(broker, "issue")
        assert "cannot be reached" in await refusal(broker, "end")
        given = (await called(broker, "whoami"))["result"]  # another one
        assert SECRET not in given
        assert "('TRACKER_TOKEN', '[redacted]')" in given
        server = os.pidfd_open(int(given.split()[0]))
    assert select.select([server], [], [], scaled(10))[0]
    os.close(server)


async def test_a_server_at_an_address_is_signed_in_to_and_has_all_tools_where_it_may_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRACKER_TOKEN", SECRET)
    monkeypatch.setenv("WRONG_TOKEN", "quite-wrong")
    with tracker() as served:
        at = {"url": f"{served.address}?key=quite-hidden", "kind": "mcp", "read_only": False, **UNHURRIED}
        async with opened(**at, password_env="TRACKER_TOKEN") as broker:  # noqa: S106  # a name
            assert await called(broker, "add", title="New") == {"result": "New"}
            assert "New" in (await called(broker, "issues"))["issues"]
            assert " Bearer [redacted] " in (await called(broker, "whoami"))["result"]
        async with opened(**at, password_env="WRONG_TOKEN") as broker:  # noqa: S106  # a name
            told = await refusal(broker, "issues")
            assert "The MCP server 'sales'" in told
            assert "quite-" not in told


async def test_a_program_that_is_not_there_is_named() -> None:
    async with opened(command="/no/such/program --fast", **UNHURRIED) as broker:
        assert "no program '/no/such/program'" in await refusal(broker, "issues")


def test_what_is_lent_never_gets_what_the_keyring_has_for_a_connection_of_that_name() -> None:
    assert lent("sales", "https://elsewhere.example/mcp").password() == ""
    assert lent("sales", "https://:token@elsewhere.example/mcp").password() == "token"


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"url": "https://x.example", "command": "serve"},
        {"url": "s3://lake", "kind": "mcp"},
        {"command": "serve", "auth": "bearer"},
        {"url": "https://x.example", "auth": "env:TOKEN"},
    ],
)
def test_a_connection_that_leads_nowhere_or_to_two_things_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"connection has|begins with|auth is"):
        ConnectionSettings(**given)
