"""What cells put out, as the page shows it: texts that fold, pictures, tables that sort, charts, and HTML shut in a frame."""

from __future__ import annotations

from cellwright.web.outputs.routes import ROUTES
from cellwright.web.outputs.views import Outputs

__all__ = ["ROUTES", "Outputs"]
