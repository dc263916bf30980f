"""How a person begins: a new notebook with a language, a template and a host; one that is in a file; a copy."""

from __future__ import annotations

from functools import partial

import anyio
from starlette.responses import Response

from cellwright import formats
from cellwright.engine import Session
from cellwright.notebook import Document, DocumentReplaced
from cellwright.notebook.languages import notebook_language
from cellwright.notebook.templates import TEMPLATES, template_changes
from cellwright.sandbox.policy import Mode
from cellwright.settings.roots import fenced
from cellwright.web._uploads import MOST_UPLOADED, upload_name
from cellwright.web.requests import PageRequest, action, page

__all__ = ["ROUTES"]

# As an agent's and the command line's: code writes into a layer over the project, where there is one.
_MODE: Mode = "overlay"
_MOST_NAME = 200


async def _form(request: PageRequest) -> Response:
    return request.fragment(
        "new_notebook.html",
        templates=TEMPLATES,
        hosts=await request.engine.hosts.list(),
        default=request.engine.options.default_language,
    )


async def _create(request: PageRequest) -> Response:
    """Make a notebook, with a template's cells below its title, or an empty cell to type into."""
    engine, form = request.engine, await request.form()
    template = TEMPLATES.get(form.get("template", ""))
    language = template.language if template is not None else form.get("language") or None
    name = " ".join(form.get("name", "").split())[:_MOST_NAME] or "Untitled"
    session = await engine.create(name, language=language, mode=_MODE, host=form.get("host") or None)
    if template is not None:
        await session.apply(template_changes(session.document, template, max_cells=engine.settings.max_cells))
    else:
        await session.add_cell("")
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
    session = await request.engine.create(name, language=notebook_language(document), mode=_MODE)
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
    action("/notebooks/new", _create),
    action("/notebooks/open", _open),
    action("/notebooks/bring", _bring, most_bytes=MOST_UPLOADED),
    action("/sessions/{session_id}/duplicate", _duplicate, while_held=True),
    action("/sessions/{session_id}/rename", _rename),
]
