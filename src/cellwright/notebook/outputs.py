"""Folds what a kernel says during one execution into the outputs that a notebook stores.

Stores what nbclient would, with two differences: neighbouring pieces of one stream become one output, as Jupyter's own
pages do, and no message changes what another execution has put out. Each message costs the same however many came
before. Knows neither kernels nor documents.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["TERMINAL_CODES", "OutputCollector", "clean", "names_only_itself"]


@dataclass(slots=True)
class _Stream:
    name: str
    pieces: list[str]

    def output(self) -> dict[str, Any]:
        self.pieces[:] = ["".join(self.pieces)]
        return {"output_type": "stream", "name": self.name, "text": self.pieces[0]}


@dataclass(slots=True)
class _Content:
    """What a display shows. All displays of one id share it, so that an update is one assignment."""

    data: dict[str, Any]
    metadata: dict[str, Any]


@dataclass(slots=True)
class _Display:
    output_type: str
    content: _Content
    extra: dict[str, Any]

    def output(self) -> dict[str, Any]:
        shown = {"data": self.content.data, "metadata": self.content.metadata}
        return {"output_type": self.output_type, **shown, **self.extra}


@dataclass(slots=True)
class _Error:
    content: dict[str, Any]

    def output(self) -> dict[str, Any]:
        return {"output_type": "error", **self.content}


@dataclass(slots=True)
class OutputCollector:
    """The outputs of one execution so far. Give it every iopub message of that execution, in order."""

    execution_count: int | None = None
    keeps_updates: bool = False
    """Whether an update of a display that is not among these becomes one of them."""
    _items: list[_Stream | _Display | _Error] = field(default_factory=list)
    _contents: dict[str, _Content] = field(default_factory=dict)
    _clear_before_next: bool = False

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """The outputs in nbformat's form."""
        return [item.output() for item in self._items]

    def shows(self, display_id: str) -> bool:
        """Whether one of the outputs is a display of this id."""
        return display_id in self._contents

    def add(self, msg_type: str, content: Mapping[str, Any]) -> str | None:
        """Take in one message; messages that are no output are passed over.

        Returns the id of the display that it shows anew, of which other executions may have some too.
        """
        if "execution_count" in content:
            self.execution_count = content["execution_count"]
        match msg_type:
            case "stream":
                self._add_stream(content.get("name", "stdout"), content.get("text", ""))
            case "display_data" | "execute_result" | "update_display_data":
                return self._show(msg_type, content)
            case "error":
                self._clear_if_due()
                error = {"ename": content.get("ename", ""), "evalue": content.get("evalue", "")}
                self._items.append(_Error({**error, "traceback": list(content.get("traceback", ()))}))
            case "clear_output" if content.get("wait"):
                self._clear_before_next = True
            case "clear_output":
                self._clear()
            case _:
                pass
        return None

    def _add_stream(self, name: str, text: str) -> None:
        self._clear_if_due()
        last = self._items[-1] if self._items else None
        if isinstance(last, _Stream) and last.name == name:
            last.pieces.append(text)
        else:
            self._items.append(_Stream(name, [text]))

    def _show(self, msg_type: str, content: Mapping[str, Any]) -> str | None:
        shown = _Content(content.get("data") or {}, content.get("metadata") or {})
        # A kernel may send transient as null, so that a default does not help.
        display_id: str | None = (content.get("transient") or {}).get("display_id")
        known = self._contents.get(display_id) if display_id else None
        if known is not None:
            known.data, known.metadata = shown.data, shown.metadata
            shown = known
        if msg_type != "update_display_data":
            self._place(msg_type, content, shown, display_id)
        elif known is None and self.keeps_updates:
            self._place("display_data", content, shown, display_id)
        return display_id or None

    def _place(
        self, msg_type: str, content: Mapping[str, Any], shown: _Content, display_id: str | None
    ) -> None:
        self._clear_if_due()
        if display_id:
            self._contents[display_id] = shown
        is_result = msg_type == "execute_result"
        extra = {"execution_count": content.get("execution_count")} if is_result else {}
        self._items.append(_Display(msg_type, shown, extra))

    def _clear_if_due(self) -> None:
        if self._clear_before_next:
            self._clear()

    def _clear(self) -> None:
        self._items.clear()
        self._contents.clear()
        self._clear_before_next = False


# Texts of outputs as a person reads them. Pure; knows no outputs as such, and no HTML (see
# ``formats.markup``).

TERMINAL_CODES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
"""What moves a terminal's cursor, sets its colours or its title, and is no text."""

_unsaid = re.compile(r"<(?:Figure size .*|IPython\.core\.display\..*)>")


def clean(text: str) -> str:
    """Terminal text as it would stand on the screen in the end: no colours, no overwritten lines."""
    text = TERMINAL_CODES.sub("", text)
    if "\r" not in text:
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


def names_only_itself(text: str) -> bool:
    """Whether a value's plain form says no more than that there is a fuller one, as a figure's does."""
    return _unsaid.fullmatch(text.strip()) is not None
