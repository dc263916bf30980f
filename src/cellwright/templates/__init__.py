"""Templates: notebooks and plans to begin with, each with parameters, a description, a picture, packages and checks.

Above are those that make notebooks (MCP, page, command line); below are ``formats``, which reads a template's notebook,
and ``plans``, which reads its plan. Making a notebook from a template runs nothing and installs nothing.

Plugins bring folders of templates by the entry points ``cellwright.templates``; ours is such a folder (``own_folder``).

Doors: ``catalogue`` (which templates there are), ``model`` (one template), ``parameters`` (what a template can be given).
Our own templates are the folders below ``own``.
"""

from cellwright.templates.catalogue import Catalogue
from cellwright.templates.model import Opening, Template, fill
from cellwright.templates.parameters import Parameter

__all__ = ["Catalogue", "Opening", "Parameter", "Template", "fill"]
