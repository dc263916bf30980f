"""A session as Lab sees it: the one kernelspec there is, the one kernel, and the language it speaks. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import cellwright
from cellwright.engine import Session
from cellwright.lab.messages import PROTOCOL
from cellwright.notebook.languages import find_language

__all__ = [
    "is_kernel_id",
    "kernel_info",
    "kernel_model",
    "kernelspec",
    "kernelspec_name",
    "kernelspecs",
    "new_kernel_id",
]

# Kernels have such ids on the wire. Those that are the same session begin alike, so that they are known without a list.
_NAMESPACE = uuid.UUID("5f1d0a52-6d3b-4b37-9a2e-0c7d4f1c2b11")
_ALIKE = 18
_PYTHON = {
    "codemirror_mode": {"name": "ipython", "version": 3},
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
    "mimetype": "text/x-python",
}


def new_kernel_id(session_id: str) -> str:
    """One more name for a session's kernel: a server lets go of each that it started, and must not let go of two."""
    return str(uuid.uuid5(_NAMESPACE, session_id))[:_ALIKE] + str(uuid.uuid4())[_ALIKE:]


def is_kernel_id(kernel_id: str, session_id: str) -> bool:
    """Whether a name may be one of this session's kernel's."""
    return kernel_id[:_ALIKE] == new_kernel_id(session_id)[:_ALIKE]


def kernelspec_name(session: Session) -> str:
    """What the notebook itself calls its kernel: by that name Lab finds this one without asking."""
    spec = session.document.metadata.get("kernelspec")
    name = spec.get("name") if isinstance(spec, Mapping) else None
    return name if isinstance(name, str) and name else f"cellwright-{session.language}"


def kernelspec(session: Session) -> dict[str, Any]:
    spec = {
        "argv": [],
        "env": {},
        "display_name": f"{session.language.capitalize()} (session {session.id})",
        "language": session.language,
        "interrupt_mode": "message",
        "metadata": {"cellwright": {"session": session.id}},
    }
    return {"name": kernelspec_name(session), "spec": spec, "resources": {}}


def kernelspecs(session: Session) -> dict[str, Any]:
    found = kernelspec(session)
    return {"default": found["name"], "kernelspecs": {found["name"]: found}}


def kernel_model(
    session: Session, kernel_id: str, *, last_activity: float, connections: int
) -> dict[str, Any]:
    active = datetime.fromtimestamp(last_activity, UTC)
    return {
        "id": kernel_id,
        "name": kernelspec_name(session),
        "last_activity": f"{active:%Y-%m-%dT%H:%M:%S.%f}Z",
        "execution_state": "busy" if session.runs.live else "idle",
        "connections": connections,
    }


def kernel_info(session: Session) -> dict[str, Any]:
    """Answered from here: the kernel would be asked only once its cell has ended, and Lab waits for this first."""
    return {
        "status": "ok",
        "protocol_version": PROTOCOL,
        "implementation": "cellwright",
        "implementation_version": cellwright.__version__,
        "language_info": _language_info(session),
        "banner": f"Session {session.id} of {session.path.name}, shared with whoever else works on it.",
        "help_links": [],
        "debugger": False,
    }


def _language_info(session: Session) -> dict[str, Any]:
    known = find_language(session.language)
    info: dict[str, Any] = {"name": session.language, "version": "", "mimetype": f"text/x-{session.language}"}
    info["file_extension"] = known.suffixes[0] if known is not None else ".txt"
    if session.language == "python":
        info |= {**_PYTHON, "version": session.record.python_version}
    told = session.document.metadata.get("language_info")
    return {**info, **told} if isinstance(told, Mapping) and told.get("name") == info["name"] else info
