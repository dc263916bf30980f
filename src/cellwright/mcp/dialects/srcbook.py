"""Srcbook's MCP server: our own tools, published and answered as its specification has it.

TypeScript is the language where none is named, every specified default is in the schemas, and what ran is told as one object.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field, WithJsonSchema, create_model

from cellwright.mcp._arguments import Arguments, ResponseFormat
from cellwright.mcp.calls import Definition
from cellwright.mcp.dialects.dialect import Dialect
from cellwright.mcp.tools.notebooks import CreateNotebook

__all__ = ["LANGUAGE", "srcbook"]

LANGUAGE = "typescript"

_LANGUAGES: dict[str, Any] = {"type": "string", "enum": [LANGUAGE, "javascript"]}


_SPECIFIED = frozenset(
    {
        "notebook_create",
        "notebook_list",
        "notebook_export",
        "notebook_import",
        "cell_add",
        "cell_execute",
        "cell_update",
        "cell_visualize",
    }
)
"""The tools of the specification, published with all defaults and by its names; of ours what can be guessed is not worth
its tokens."""


_RUNS = frozenset({"cell_execute", "cell_add_and_run", "scratch_run", "execution_wait"})
"""The tools that answer with what cells put out."""


class CreateSrcbook(CreateNotebook):
    # Published as specified; whoever knows that there are other languages is not refused them.
    language: Annotated[str | None, WithJsonSchema(_LANGUAGES)] = Field(default=LANGUAGE, max_length=100)


def srcbook(own: Dialect) -> Dialect:
    """The dialect over these of our own tools."""
    return replace(own, tools=tuple(_as_specified(definition) for definition in own.tools))


def _as_specified(definition: Definition) -> Definition:
    arguments = CreateSrcbook if definition.arguments is CreateNotebook else definition.arguments
    if definition.name in _RUNS:
        arguments = _answered_as_object(arguments)
        # Taken, though not published: the specification knows no other form.
        definition = replace(definition, keeps_back=(*definition.keeps_back, "response_format"))
    specified = definition.name in _SPECIFIED
    return replace(definition, arguments=arguments, all_defaults=specified, former_names=specified)


def _answered_as_object(arguments: type[Arguments]) -> type[Arguments]:
    return create_model(arguments.__name__, __base__=arguments, response_format=(ResponseFormat, "json"))
