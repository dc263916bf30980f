"""What a person may do in a conversation: ask, ask again, stop, delete. The stream shows what comes of it."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from cellwright.delegation import Delegate, DelegatedRun
from cellwright.errors import UnknownRun
from cellwright.web.chat.forms import PATTERNS, agent_request
from cellwright.web.requests import PageRequest, action
from cellwright.web.templates import render

__all__ = ["ROUTES"]

_BEGINNING_S = 60.0
"""A provider's library takes seconds to import; its models are asked after that."""


async def _begin(request: PageRequest) -> Response:
    run = await _begun(request, await request.form(), None)
    conversation_id = run.conversation_id or await request.site.delegate.conversation_of(run.id)
    return request.done(go=f"/chat/{conversation_id}" if conversation_id is not None else "/chat")


async def _go_on(request: PageRequest) -> Response:
    delegate, form = request.site.delegate, await request.form()
    conversation = await delegate.conversation(request.http.path_params["conversation_id"])
    if again := form.get("again"):
        asked = {run["run_id"]: run["question"] for run in conversation["runs"]}
        if again not in asked:
            raise UnknownRun(f"There is no run {again!r} in this conversation")
        await _begun(request, {**form, "question": asked[again]}, conversation["id"])
        return request.done()
    await _begun(request, form, conversation["id"])
    # The form as it was, but for what was asked.
    fresh = render(
        "chat_ask.html",
        conversation=conversation,
        patterns=PATTERNS,
        form={**form, "question": "", "data": ""},
        session=None,
        root=request.engine.settings.root,
    )
    return request.done(parts={"chat-ask": fresh})


async def _begun(request: PageRequest, form: Mapping[str, str], conversation_id: str | None) -> DelegatedRun:
    """A run that has got as far as its first step.

    Raises:
        CellwrightError: it did not get that far.
    """
    delegate: Delegate = request.site.delegate
    models = await delegate.models() if form.get("model") else []
    settings = request.engine.settings
    question = await agent_request(
        form, models, root=settings.root, roots=settings.roots, conversation_id=conversation_id
    )
    run = await delegate.begin(question)
    await run.changed(0, _BEGINNING_S)
    if run.failure is not None and not run.entries(0):
        raise run.failure
    return run


async def _stop(request: PageRequest) -> Response:
    run = request.site.delegate.run(request.http.path_params["run_id"])
    await run.cancel()
    return request.done("Stopped" if run.result is None else "It had just ended")


async def _forget(request: PageRequest) -> Response:
    conversation_id = request.http.path_params["conversation_id"]
    await request.site.delegate.forget(conversation_id)
    return request.done("The conversation is deleted; its notebooks stay", go="/chat")


ROUTES = [
    action("/chat", _begin),
    action("/chat/{conversation_id}", _go_on),
    action("/chat/{conversation_id}/runs/{run_id}/stop", _stop),
    action("/chat/{conversation_id}/delete", _forget, needs="own"),
]
