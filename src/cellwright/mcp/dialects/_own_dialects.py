"""Our own dialects, as ``pyproject.toml`` registers them."""

from __future__ import annotations

from dataclasses import replace

from cellwright.mcp.dialects.dialect import Dialect, DialectPlugin, DialectResource
from cellwright.mcp.dialects.jlab import JLAB, JLAB_STATUS_URI, status
from cellwright.mcp.dialects.jupyter import JUPYTER
from cellwright.mcp.dialects.monadic import MONADIC
from cellwright.mcp.dialects.srcbook import LANGUAGE, srcbook
from cellwright.mcp.tools.executions import EXECUTION_TOOLS

__all__ = ["JLAB_DIALECT", "JUPYTER_DIALECT", "MONADIC_DIALECT", "SRCBOOK_DIALECT"]

CELLWRIGHT_API = 1

_WAITING = {"execution_wait", "execution_cancel"}


def _with_waiting(dialect: Dialect) -> Dialect:
    """A call that outlasts its client's timeout hands back an execution's id: these two take it."""
    lasting = (definition for definition in EXECUTION_TOOLS if definition.name in _WAITING)
    return replace(dialect, tools=(*dialect.tools, *lasting))


SRCBOOK_DIALECT = DialectPlugin(srcbook, LANGUAGE)
JLAB_DIALECT = DialectPlugin(
    lambda _: _with_waiting(JLAB), resources=(DialectResource(JLAB_STATUS_URI, "status", status),)
)
JUPYTER_DIALECT = DialectPlugin(lambda _: _with_waiting(JUPYTER))
MONADIC_DIALECT = DialectPlugin(lambda _: _with_waiting(MONADIC))
