"""One template: what its folder says, checked, and what a notebook made from it holds.

A folder has ``template.toml``, a notebook (``notebook.md``, ``.ipynb`` or what else ``formats`` reads) or a plan
(``plan.md``, ``plan.toml``), and may have a picture. Which folders there are is ``catalogue``'s.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec
from msgspec.structs import replace as changed

from cellwright import formats
from cellwright.errors import CellwrightError, PlanError, TemplateError
from cellwright.notebook import CellKind, Document
from cellwright.notebook.cells import OWN_SECTION, own_section
from cellwright.notebook.document import Change, NotebookMetadataSet, add_cell
from cellwright.plans.checks import check_source, parse_check
from cellwright.plans.model import Outline
from cellwright.plans.plan_files import parse_plan
from cellwright.templates.parameters import TAG, Parameter, read_parameters, with_values

if TYPE_CHECKING:
    from cellwright.engine import Engine, Session
    from cellwright.plans import Planner

__all__ = [
    "MANIFEST",
    "MOST_BYTES",
    "Opening",
    "Picture",
    "Template",
    "belongs",
    "fill",
    "is_name",
    "picture_type",
    "read_template",
]

MANIFEST = "template.toml"
MOST_BYTES = 2_000_000
"""What one file of a template may have."""

_PICTURES = {
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".webp": "image/webp",
}
_PLANS = {"plan.md": "markdown", "plan.toml": "toml"}
_PARAMETERS_STEP = "parameters"
_filename = re.compile(r"[a-z]+(?:\.[A-Za-z0-9]+){1,3}")
_name = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,58}[a-z0-9])?")

_Word: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
_Check: TypeAlias = Annotated[str, msgspec.Meta(max_length=2_000)]


class _Manifest(msgspec.Struct, frozen=True):
    """``template.toml``. Lists of templates are asked for at a shell, so that it is checked without pydantic."""

    title: Annotated[str, msgspec.Meta(min_length=1, max_length=80)]
    description: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
    packages: Annotated[tuple[_Word, ...], msgspec.Meta(max_length=50)] = ()
    checks: Annotated[tuple[_Check, ...], msgspec.Meta(max_length=20)] = ()
    keywords: Annotated[tuple[_Word, ...], msgspec.Meta(max_length=20)] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """What a template looks like."""

    mime: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Opening:
    """What a new notebook begins with."""

    language: str
    host: str | None
    """Where its kernel is to live, where a parameter says so."""
    cells: tuple[tuple[CellKind, str, Mapping[str, Any]], ...]
    """Kind, source and metadata of each, below the title."""
    outline: Outline | None
    """Its plan, if the template is one."""
    packages: tuple[str, ...]
    """What its code needs; whoever runs it has it installed."""
    about: Mapping[str, Any]
    """The template's name, and the values that were given; kept in the notebook's metadata."""


@dataclass(frozen=True, slots=True)
class Template:
    """A template that was read and checked."""

    name: str
    title: str
    description: str
    language: str
    parameters: tuple[Parameter, ...]
    packages: tuple[str, ...]
    keywords: tuple[str, ...]
    checks: tuple[str, ...]
    body: Document | Outline = field(repr=False)
    picture: Picture | None = None
    source: str = "cellwright"
    """Where it comes from."""

    @property
    def is_plan(self) -> bool:
        return isinstance(self.body, Outline)

    def opening(self, given: Mapping[str, Any]) -> Opening:
        """What a notebook with these parameters holds.

        Raises:
            TemplateError: there is no such parameter, or a value is of another type.
        """
        values = self._values(given)
        about: dict[str, Any] = {"name": self.name, "source": self.source}
        if values:
            about["parameters"] = values
        host = values.get("host", next((one.default for one in self.parameters if one.name == "host"), None))
        if isinstance(self.body, Outline):
            plan = _filled(self.body, self.language, values)
            return Opening(self.language, _text(host), (), plan, self.packages, about)
        cells = tuple(self._cells(self.body, values))
        return Opening(self.language, _text(host), cells, None, self.packages, about)

    def _values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        known = {one.name: one for one in self.parameters}
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                listed = ", ".join(known) or "none"
                raise TemplateError(
                    f"The template {self.name!r} has no parameter {name!r}",
                    hint=f"Did you mean {near[0]}?" if near else f"Its parameters: {listed}",
                )
        return {name: known[name].value_of(value) for name, value in given.items()}

    def _cells(
        self, body: Document, values: Mapping[str, Any]
    ) -> list[tuple[CellKind, str, Mapping[str, Any]]]:
        cells: list[tuple[CellKind, str, Mapping[str, Any]]] = []
        for cell in body.cells:
            source = cell.source
            if TAG in cell.tags:
                source = with_values(source, body.language_of(cell), values)
            cells.append((cell.kind, source, cell.metadata))
        checks = [check for text in self.checks if (check := parse_check(text, self.language)) is not None]
        if checks:
            code = "\n".join(check_source(check, self.language) for check in checks)
            cells.append(("markdown", "## Checks\n\nThese must hold.", {}))
            cells.append(("code", code, {"tags": ["checks"]}))
        return cells

    def data(self) -> dict[str, Any]:
        """Return the template as listings and clients have it."""
        about: dict[str, Any] = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "kind": "plan" if self.is_plan else "notebook",
            "language": self.language,
            "source": self.source,
            "parameters": [one.data() for one in self.parameters],
        }
        told = {"packages": list(self.packages), "checks": list(self.checks)}
        return about | {name: value for name, value in told.items() if value}


def is_name(text: str) -> bool:
    """Whether a template can be called so."""
    return _name.fullmatch(text) is not None


def belongs(filename: str) -> bool:
    """Whether a file of this name is part of a template; a folder may hold others, which nobody reads."""
    stem, _, suffix = filename.partition(".")
    return _filename.fullmatch(filename) is not None and (
        filename == MANIFEST
        or filename in _PLANS
        or (stem == "picture" and f".{suffix}" in _PICTURES)
        or (stem == "notebook" and formats.format_of_file(filename) is not None)
    )


def read_template(name: str, files: Mapping[str, bytes], *, source: str = "cellwright") -> Template:
    """Read a template from the files of its folder, by their names.

    Raises:
        TemplateError: something in it cannot be read; the message names the template and the file.
    """
    if not is_name(name):
        raise TemplateError(
            f"{name[:80]!r} cannot be a template's name", hint="Use lower-case letters, digits and hyphens"
        )
    try:
        manifest = _manifest(files)
        language, body = _body(name, files)
        parameters = _parameters(language, body)
        for text in manifest.checks:
            if (check := parse_check(text, language)) is not None and not isinstance(body, Outline):
                check_source(check, language)
    except TemplateError as error:
        raise TemplateError(f"Template {name!r}: {error.message}", hint=error.hint) from error
    except CellwrightError as error:
        raise TemplateError(f"Template {name!r} cannot be read: {error.message}", hint=error.hint) from error
    if isinstance(body, Outline) and manifest.checks:
        raise TemplateError(
            f"Template {name!r}: {MANIFEST} has checks, and a plan has its own", hint="Put them into the plan"
        )
    return Template(
        name,
        manifest.title,
        " ".join(manifest.description.split()),
        language,
        parameters,
        manifest.packages,
        manifest.keywords,
        manifest.checks,
        body,
        _picture(files),
        source,
    )


def _manifest(files: Mapping[str, bytes]) -> _Manifest:
    if MANIFEST not in files:
        raise TemplateError(f"it has no {MANIFEST}", hint="Give it one with a title and a description")
    hint = f"It may have: {', '.join(_Manifest.__struct_fields__)}"
    try:
        told = tomllib.loads(files[MANIFEST].decode())
        if unknown := [name for name in told if name not in _Manifest.__struct_fields__]:
            raise TemplateError(f"{MANIFEST}, {unknown[0]}: there is no such field", hint=hint)
        return msgspec.convert(told, _Manifest)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TemplateError(f"{MANIFEST} is no TOML: {error}", hint="Correct the line it names") from None
    except msgspec.ValidationError as error:
        said, _, place = str(error).partition(" - at `$.")
        raise TemplateError(f"{MANIFEST}{place and ', '}{place.rstrip('`')}: {said}", hint=hint) from None


def _body(name: str, files: Mapping[str, bytes]) -> tuple[str, Document | Outline]:
    notebooks = [one for one in files if one.startswith("notebook.") and belongs(one)]
    plans = [one for one in files if one in _PLANS]
    if len(notebooks) + len(plans) != 1:
        raise TemplateError(
            f"it has {len(notebooks) + len(plans)} notebooks and plans",
            hint="Give it one of notebook.md, notebook.ipynb, notebook.py, plan.md or plan.toml",
        )
    if plans:
        kind = _PLANS[plans[0]]
        try:
            text = files[plans[0]].decode("utf-8-sig")
        except UnicodeDecodeError:
            raise PlanError(f"{plans[0]} is not UTF-8", hint="Save the file as UTF-8") from None
        plan = parse_plan(text, kind="markdown" if kind == "markdown" else "toml", name=plans[0])
        return plan.language, plan.outline
    document = formats.read(files[notebooks[0]], name=notebooks[0], max_cells=1_000).document
    return document.language, document


def _parameters(language: str, body: Document | Outline) -> tuple[Parameter, ...]:
    if isinstance(body, Outline):
        step = next((one for one in body.todos if one.description.lower() == _PARAMETERS_STEP), None)
        return read_parameters(step.code, language) if step is not None and step.code else ()
    cell = next((one for one in body.cells if TAG in one.tags and one.kind == "code"), None)
    return read_parameters(cell.source, body.language_of(cell)) if cell is not None else ()


def _picture(files: Mapping[str, bytes]) -> Picture | None:
    found = next((one for one in sorted(files) if one.startswith("picture.") and belongs(one)), None)
    return Picture(picture_type(found), files[found]) if found else None


def picture_type(filename: str) -> str:
    """The MIME type of a picture of this name, one that belongs to a template."""
    return _PICTURES[f".{filename.partition('.')[2]}"]


def _filled(outline: Outline, language: str, values: Mapping[str, Any]) -> Outline:
    """The plan with these values in its step called Parameters."""
    todos = tuple(
        changed(todo, code=with_values(todo.code, language, values))
        if todo.code and todo.description.lower() == _PARAMETERS_STEP
        else todo
        for todo in outline.todos
    )
    return changed(outline, todos=todos)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


async def fill(engine: Engine, planner: Planner, session: Session, opening: Opening) -> None:
    """Put a template's cells, or its plan, into a new session's notebook. Nothing is run.

    Raises:
        CellwrightError: it cannot hold them; the session is gone then.
    """
    try:
        await session.apply(_changes(session.document, opening, max_cells=engine.settings.max_cells))
        if opening.outline is not None:
            await planner.create(session, changed(opening.outline, problem=session.title))
    except CellwrightError:
        await engine.delete(session.id, remove_file=True)
        raise


def _changes(document: Document, opening: Opening, *, max_cells: int) -> list[Change]:
    """The changes that append a template's cells, and name it in the metadata."""
    filled = document.copy()
    own = {**own_section(document.metadata), "template": dict(opening.about)}
    made: list[Change] = [NotebookMetadataSet({**document.metadata, OWN_SECTION: own})]
    for kind, source, metadata in opening.cells:
        change = add_cell(filled, kind, source, max_cells=max_cells, metadata=metadata)
        filled.apply(change)
        made.append(change)
    return made
