"""The batch script of an allocation: our own ``job.sh``, or a site's. Fills in; submits nothing.

A placeholder is a name in double braces. Values come quoted for the shell, so a template puts no quotes around them.
Nothing secret is ever filled in: anybody who may look at jobs may read their scripts.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cellwright.errors import ShapeRefused

__all__ = ["batch_script", "fill_template", "read_template"]

_PLACEHOLDER: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_OURS: Final = Path(__file__).with_name("job.sh")


def batch_script(
    template: str, *, name: str, python: str, directory: str, modules: tuple[str, ...] = ()
) -> str:
    """The script of one allocation.

    Raises:
        ShapeRefused: the template cannot be used.
    """
    host = shlex.join([python, "-m", "cellwright.hosts.slurm.inside", directory])
    return fill_template(
        template,
        {
            "host": host,
            "modules": "\n".join(_loading(module) for module in modules),
            "python": shlex.quote(python),
            "directory": shlex.quote(directory),
            "name": shlex.quote(name),
        },
    )


def read_template(path: Path | None) -> str:
    """A site's template, or our own.

    Raises:
        ShapeRefused: it cannot be read.
    """
    try:
        return (path or _OURS).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ShapeRefused(
            f"The template {path} cannot be read: {getattr(error, 'strerror', None) or error}",
            hint="Correct slurm_template, or remove it",
        ) from error


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """A template with its placeholders filled in.

    Raises:
        ShapeRefused: it is no script, names what there is not, or does not start the host.
    """
    if not template.startswith("#!"):
        raise ShapeRefused("The template is no script: its first line must be `#!/bin/bash -l` or alike")
    for number, line in enumerate(template.splitlines(), 1):
        for match in _PLACEHOLDER.finditer(line):
            if match[1] not in values:
                raise ShapeRefused(
                    f"The template's line {number} has {match[0]}, which there is not",
                    hint=f"There are {', '.join(f'{{{{{known}}}}}' for known in values)}",
                )
    if "host" not in {match[1] for match in _PLACEHOLDER.finditer(template)}:
        raise ShapeRefused(
            "The template does not start the host", hint="End it with the line `exec {{host}}`"
        )
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)


def _loading(module: str) -> str:
    complaint = shlex.quote(f"cellwright: module {module} cannot be loaded")
    return f"module load {shlex.quote(module)} || {{ echo {complaint} >&2; exit 97; }}"
