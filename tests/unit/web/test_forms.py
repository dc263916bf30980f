"""What the page reads of a form: no more than a form may have, however it was sent."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.types import Message

from cellwright.people import Person
from cellwright.web.requests import PageRequest, action, answer

MEGABYTE = 1024 * 1024
URLENCODED = b"application/x-www-form-urlencoded"
MULTIPART = b"multipart/form-data; boundary=x"
FIELD = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n'
FILE = b'--x\r\nContent-Disposition: form-data; name="a"; filename="f"\r\n\r\n'

pytestmark = pytest.mark.anyio


class Sender:
    """Sends a beginning and then so many megabytes; counts what is taken of them."""

    def __init__(self, beginning: bytes, megabytes: int, end: bytes = b"") -> None:
        self._parts = [beginning, *[b"x" * MEGABYTE] * megabytes, end]
        self.taken = 0

    async def __call__(self) -> Message:
        part = self._parts[self.taken]
        self.taken += 1
        return {"type": "http.request", "body": part, "more_body": self.taken < len(self._parts)}


async def post(kind: bytes, sender: Sender) -> tuple[int, dict[str, Any]]:
    async def echo(visit: PageRequest) -> Response:
        assert await visit.form() == await visit.form(), "it can be asked for twice"
        return answer({name: len(value) for name, value in (await visit.form()).items()})

    app = Starlette(routes=[action("/deed", echo)])
    app.state.site = None
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/deed",
        "query_string": b"",
        "headers": [(b"content-type", kind)],
        "state": {"person": Person("ann", "run")},
    }
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, sender, send)
    body = b"".join(message.get("body", b"") for message in sent)
    return cast(int, sent[0]["status"]), json.loads(body)


@pytest.mark.parametrize(
    ("kind", "beginning"), [(URLENCODED, b"a="), (MULTIPART, FIELD), (MULTIPART, FILE)], ids=str
)
async def test_a_form_of_200_megabytes_is_refused_and_not_read(kind: bytes, beginning: bytes) -> None:
    sender = Sender(beginning, 200)
    status, told = await post(kind, sender)
    assert status == 413
    assert "8 MB" in told["error"]
    assert told["hint"]
    assert sender.taken <= 10


async def test_what_is_no_form_is_refused_with_the_reason() -> None:
    status, told = await post(MULTIPART, Sender(b"no boundary here", 0))
    assert status == 400
    assert told["error"]


@pytest.mark.parametrize(
    ("kind", "beginning", "end"), [(URLENCODED, b"a=", b""), (MULTIPART, FIELD, b"\r\n--x--\r\n")], ids=str
)
async def test_a_long_cell_comes_through_whole(kind: bytes, beginning: bytes, end: bytes) -> None:
    assert await post(kind, Sender(beginning, 7, end)) == (200, {"a": 7 * MEGABYTE})
