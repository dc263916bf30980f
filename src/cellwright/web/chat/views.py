"""The pages of conversations, what they load as they are looked at, and the streams that keep them true."""

from __future__ import annotations

from starlette.responses import Response

from cellwright.errors import AgentError, NoAgent
from cellwright.web.chat.errands import PATTERNS
from cellwright.web.chat.results import results_of
from cellwright.web.chat.rows import conversation_rows
from cellwright.web.chat.steps import entry_of, step_views
from cellwright.web.chat.talks import ConversationList, talk_about
from cellwright.web.chat.turns import live_run, number_of, turn_of
from cellwright.web.live import LiveResponse
from cellwright.web.visits import Visit, page

__all__ = ["ROUTES"]


async def _conversations(visit: Visit) -> Response:
    delegate, missing, rows = visit.site.delegate, None, []
    seq = await delegate.stirred(0)
    try:
        rows = await conversation_rows(delegate)
    except NoAgent as error:
        missing = error
    about = visit.request.query_params.get("session")
    session = visit.engine.session(about) if about else None
    return visit.html(
        "chats.html",
        title="Chat",
        rows=rows,
        missing=missing,
        seq=seq,
        conversation=None,
        patterns=PATTERNS,
        form={},
        session=session,
        root=visit.engine.settings.root,
    )


async def _conversation(visit: Visit) -> Response:
    delegate = visit.site.delegate
    conversation = await delegate.conversation(visit.request.path_params["conversation_id"])
    return visit.html(
        "chat.html",
        title=conversation["title"],
        conversation=conversation,
        turns=[turn_of(run, delegate) for run in conversation["runs"]],
        seq=number_of(conversation, live_run(conversation, delegate)),
        patterns=PATTERNS,
        form={},
        session=None,
        root=visit.engine.settings.root,
    )


async def _models(visit: Visit) -> Response:
    """Which models can be asked; where there is none, what to do."""
    try:
        return visit.fragment("chat_models.html", models=await visit.site.delegate.models(), problem=None)
    except AgentError as error:
        return visit.fragment("chat_models.html", models=[], problem=error)


async def _results(visit: Visit) -> Response:
    trace = await visit.site.delegate.trace(visit.request.path_params["run_id"])
    return visit.fragment(
        "chat_results.html", run_id=trace["run_id"], results=results_of(visit.engine, trace)
    )


async def _steps(visit: Visit) -> Response:
    trace = await visit.site.delegate.trace(visit.request.path_params["run_id"])
    steps = step_views([entry_of(step) for step in trace["steps"]], goes_on=False)
    return visit.fragment("chat_steps.html", run_id=trace["run_id"], steps=steps)


async def _live_list(visit: Visit) -> Response:
    return LiveResponse(visit.request, ConversationList(visit.site.delegate))


async def _live(visit: Visit) -> Response:
    talk = talk_about(visit.site.delegate, visit.request.path_params["conversation_id"])
    return LiveResponse(visit.request, talk)


ROUTES = [
    page("/chat", _conversations),
    page("/chat/live", _live_list),
    page("/chat/models", _models),
    page("/chat/{conversation_id}", _conversation),
    page("/chat/{conversation_id}/live", _live),
    page("/chat/{conversation_id}/runs/{run_id}", _results),
    page("/chat/{conversation_id}/runs/{run_id}/steps", _steps),
]
