"""Keeps grammars for addresses, which no notebook needs, from being loaded with nbformat. Imports nothing of it (see
``html``, ``jupytext_formats``, ``json_formats``).
"""

from __future__ import annotations

import sys

__all__ = ["leave_out_address_grammars"]


def leave_out_address_grammars() -> None:
    """Have nbformat imported in a tenth of a second instead of two, in a process that is ours alone.

    It imports jsonschema, which builds 38 grammars for addresses in any script if it finds the package for them, as
    it does wherever JupyterLab is installed. A program that is not ours may check such addresses.
    """
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # how Python says "there is none"
