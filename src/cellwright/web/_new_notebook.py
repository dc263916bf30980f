"""How a person begins: a new notebook with a language, a template and a host; one that is in a file; a copy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio
from starlette.responses import Response

from cellwright import formats
from cellwright.engine import Session
from cellwright.notebook import Document, DocumentReplaced
from cellwright.sandbox.policy import Mode
from cellwright.settings.roots import fenced
from cellwright.templates import Parameter, Template, fill
from cellwright.templates.model import picture_type
from cellwright.web._templates import render
from cellwright.web._uploads import MOST_UPLOADED, upload_name
from cellwright.web.requests import PageRequest, action, page

__all__ = ["ROUTES"]

# As an agent's and the command line's: code writes into a layer over the project, where there is one.
_MODE: Mode = "overlay"
_MOST_NAME = 200
_FIELD = "parameter-"
# A picture of somebody else's is looked at, and runs nothing even where it is opened by itself.
_STILL = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}


async def _form(request: PageRequest) -> Response:
    """What a new notebook can begin with; with a template's name in the address, that template's form."""
    hosts = await request.engine.hosts.list()
    if name := request.http.query_params.get("template"):
        return request.fragment(
            "new_from_template.html",
            begun=await _template(request, name),
            hosts=hosts,
            field=_FIELD,
            written=_written,
        )
    return request.fragment(
        "new_notebook.html",
        templates=await _templates(request),
        galleries=bool(request.site.galleries),
        hosts=hosts,
        default=request.engine.options.default_language,
    )


async def _offered(request: PageRequest) -> Response:
    """What the galleries have that was not added yet, and which could not be read."""
    offers, problems = await request.site.galleries.offers()
    here = {(one.source, one.name) for one in await _templates(request)}
    there = [one for one in offers if (one.gallery, one.name) not in here]
    return request.fragment("new_offers.html", offers=there, problems=problems)


async def _offered_picture(request: PageRequest) -> Response:
    """The picture of an offer that was listed, held against its index."""
    asked = request.http.query_params
    offer = request.site.galleries.seen(asked.get("name", ""), asked.get("gallery", ""))
    if offer is None or offer.picture is None:
        return Response(status_code=404)
    content = await offer.content(offer.picture)
    return Response(content, media_type=picture_type(offer.picture), headers=_STILL)


async def _add(request: PageRequest) -> Response:
    """Bring a gallery's template here. Nothing of it is run."""
    form = await request.form()
    name, gallery = form.get("name", ""), form.get("gallery", "")
    added = await request.site.galleries.add(name, gallery=gallery)
    request.engine.audit.note("templates", added=added.name, source=added.source)
    listed = render("new_templates.html", templates=await _templates(request))
    parts = {"template-list": listed, f"offer-{form.get('number', '')}": None}
    return request.done(f"{added.title} can be begun with now", parts=parts)


async def _templates(request: PageRequest) -> list[Template]:
    return await anyio.to_thread.run_sync(request.site.templates.templates)


async def _template(request: PageRequest, name: str) -> Template:
    return await anyio.to_thread.run_sync(request.site.templates.find, name)


async def _picture(request: PageRequest) -> Response:
    picture = (await _template(request, request.http.path_params["name"])).picture
    if picture is None:
        return Response(status_code=404)
    return Response(picture.content, media_type=picture.mime, headers=_STILL)


def _written(value: Any) -> str:
    """A parameter's value as a form has it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _given(parameters: tuple[Parameter, ...], form: Mapping[str, str]) -> dict[str, str]:
    """What a form has otherwise than the template."""
    fields = {one.name: form.get(_FIELD + one.name, _written(one.default)) for one in parameters}
    return {one.name: fields[one.name] for one in parameters if fields[one.name] != _written(one.default)}


async def _create(request: PageRequest) -> Response:
    """Make a notebook, with what a template has below its title, or an empty cell to type into. Nothing is run."""
    engine, form = request.engine, await request.form()
    name, host = " ".join(form.get("name", "").split())[:_MOST_NAME], form.get("host") or None
    if not form.get("template"):
        language = form.get("language") or None
        session = await engine.create(name or "Untitled", language=language, mode=_MODE, host=host)
        await session.add_cell("")
        return _opened(request, session)
    template = await _template(request, form["template"])
    opening = template.opening(_given(template.parameters, form))
    session = await engine.create(
        name or template.title, language=opening.language, mode=_MODE, host=host or opening.host
    )
    await fill(engine, request.site.planner, session, opening)
    return _opened(request, session)


async def _open(request: PageRequest) -> Response:
    """The session of a notebook that lies in a directory which the settings allow."""
    engine, path = request.engine, (await request.form()).get("path", "").strip()
    allowed = fenced(path, engine.settings.roots or (engine.options.root,), base=engine.options.root)
    return _opened(request, await engine.open(allowed, mode=_MODE))


async def _bring(request: PageRequest) -> Response:
    """Make a notebook of a file that somebody brought, in any format that can be read. Nothing is run."""
    engine, name = request.engine, upload_name(request.http.query_params.get("name", ""))
    content = await request.http.body()
    read = partial(
        formats.read,
        content,
        name=name,
        max_cells=engine.settings.max_cells,
        language=engine.options.default_language,
    )
    document = (await anyio.to_thread.run_sync(read)).document
    session = await _with(request, document, name.rpartition(".")[0] or name)
    return _opened(request, session)


async def _with(request: PageRequest, document: Document, name: str) -> Session:
    session = await request.engine.create(name, language=document.language, mode=_MODE)
    await session.apply([DocumentReplaced(document.to_bytes().decode(), {})])
    return session


async def _duplicate(request: PageRequest) -> Response:
    return _opened(request, await request.engine.duplicate(request.session().id))


async def _rename(request: PageRequest) -> Response:
    session = request.session()
    await session.rename((await request.form()).get("title", ""))
    return request.done(f"It is called {session.title} now")


def _opened(request: PageRequest, session: Session) -> Response:
    return request.done(f"{session.title} is open", go=f"/sessions/{session.id}")


ROUTES = [
    page("/notebooks/new", _form),
    page("/templates/{name}/picture", _picture),
    page("/notebooks/offered", _offered, needs="run"),
    page("/notebooks/offered/picture", _offered_picture, needs="run"),
    action("/notebooks/offered/add", _add, needs="own"),
    action("/notebooks/new", _create),
    action("/notebooks/open", _open),
    action("/notebooks/bring", _bring, most_bytes=MOST_UPLOADED),
    action("/sessions/{session_id}/duplicate", _duplicate, while_held=True),
    action("/sessions/{session_id}/rename", _rename),
]
