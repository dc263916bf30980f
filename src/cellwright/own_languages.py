"""Our own languages as plugins of the kind ``languages``: light, as every notebook's first look at its language reads it."""

from __future__ import annotations

from typing import Any

from cellwright.notebook.languages import Language, OnDeno, OnKernelspec, OnPython

__all__ = ["BASH", "JAVASCRIPT", "JULIA", "PYTHON", "SQL", "TYPESCRIPT", "R"]

CELLWRIGHT_API = 1


def _jupyter(display_name: str, language: str, name: str) -> dict[str, Any]:
    """What other programs find the kernel of a new notebook by."""
    return {"kernelspec": {"display_name": display_name, "language": language, "name": name}}


PYTHON = Language(
    "python",
    (".py",),
    ("py", "py3", "python3", "ipython", "ipython3"),
    runs=OnPython(),
    metadata={
        **_jupyter("Python 3 (ipykernel)", "python", "python3"),
        "language_info": {
            "codemirror_mode": {"name": "ipython", "version": 3},
            "file_extension": ".py",
            "mimetype": "text/x-python",
            "name": "python",
            "nbconvert_exporter": "python",
            "pygments_lexer": "ipython3",
        },
    },
)
TYPESCRIPT = Language(
    "typescript",
    (".ts", ".mts", ".cts"),
    ("ts", "mts", "cts", "tsx", "deno"),
    "//",
    runs=OnDeno(),
    metadata=_jupyter("Deno", "typescript", "deno"),
)
JAVASCRIPT = Language(
    "javascript",
    (".js", ".mjs", ".cjs"),
    ("js", "mjs", "cjs", "jsx", "node", "nodejs"),
    "//",
    runs=OnDeno("javascript"),
    metadata=_jupyter("Deno", "javascript", "deno"),
)
SQL = Language(
    "sql",
    (".sql",),
    ("duckdb", "sqlite", "postgresql", "postgres", "mysql"),
    "--",
    runs=OnPython(
        "sql"
    ),  # the kernel's own name for its module; kernels that run since an earlier version know it
)
R = Language("r", (".R", ".r"), ("ir", "rlang"), runs=OnKernelspec("ir"), metadata=_jupyter("R", "R", "ir"))
JULIA = Language("julia", (".jl",), ("jl",), runs=OnKernelspec("julia"))
BASH = Language(
    "bash",
    (".sh", ".bash"),
    ("sh", "shell", "shellscript", "zsh"),
    editor_name="shellscript",
    runs=OnKernelspec("bash"),
)
