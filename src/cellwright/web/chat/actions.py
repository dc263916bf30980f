"""What a person may do in a conversation: ask, ask again, stop, delete. The stream shows what comes of it."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from cellwright.delegation import Delegate, DelegatedRun
from cellwright.errors import UnknownRun
from cellwright.web.chat.forms import PATTERNS, agent_request
from cellwright.web.requests import Visit, deed
from cellwright.web.templates import render

__all__ = ["ROUTES"]

_BEGINNING_S = 60.0
"""A provider's library takes seconds to import; its models are asked after that."""


async def _begin(visit: Visit) -> Response:
    run = await _begun(visit, await visit.form(), None)
    conversation_id = run.conversation_id or await visit.site.delegate.conversation_of(run.id)
    return visit.done(go=f"/chat/{conversation_id}" if conversation_id is not None else "/chat")


async def _go_on(visit: Visit) -> Response:
    delegate, form = visit.site.delegate, await visit.form()
    conversation = await delegate.conversation(visit.request.path_params["conversation_id"])
    if again := form.get("again"):
        asked = {run["run_id"]: run["question"] for run in conversation["runs"]}
        if again not in asked:
            raise UnknownRun(f"There is no run {again!r} in this conversation")
        await _begun(visit, {**form, "question": asked[again]}, conversation["id"])
        return visit.done()
    await _begun(visit, form, conversation["id"])
    # The form as it was, but for what was asked.
    fresh = render(
        "chat_ask.html",
        conversation=conversation,
        patterns=PATTERNS,
        form={**form, "question": "", "data": ""},
        session=None,
        root=visit.engine.settings.root,
    )
    return visit.done(parts={"chat-ask": fresh})


async def _begun(visit: Visit, form: Mapping[str, str], conversation_id: str | None) -> DelegatedRun:
    """A run that has got as far as its first step.

    Raises:
        CellwrightError: it did not get that far.
    """
    delegate: Delegate = visit.site.delegate
    models = await delegate.models() if form.get("model") else []
    settings = visit.engine.settings
    request = await agent_request(
        form, models, root=settings.root, roots=settings.roots, conversation_id=conversation_id
    )
    run = await delegate.begin(request)
    await run.changed(0, _BEGINNING_S)
    if run.failure is not None and not run.told(0):
        raise run.failure
    return run


async def _stop(visit: Visit) -> Response:
    run = visit.site.delegate.run(visit.request.path_params["run_id"])
    await run.cancel()
    return visit.done("Stopped" if run.result is None else "It had just ended")


async def _forget(visit: Visit) -> Response:
    conversation_id = visit.request.path_params["conversation_id"]
    await visit.site.delegate.forget(conversation_id)
    return visit.done("The conversation is deleted; its notebooks stay", go="/chat")


ROUTES = [
    deed("/chat", _begin),
    deed("/chat/{conversation_id}", _go_on),
    deed("/chat/{conversation_id}/runs/{run_id}/stop", _stop),
    deed("/chat/{conversation_id}/delete", _forget, needs="own"),
]
