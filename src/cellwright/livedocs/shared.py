"""A shared notebook document: read as a sheet, and brought to say another by the smallest edits that do.

The document is a CRDT in the form that Jupyter gives notebooks (``cells``: an array of maps with a text each). Where
several people edit, their small edits merge; a value that is written anew takes theirs with it. So nothing is written
that is not different. Who sends the document's updates where is ``rooms``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from cellwright.livedocs.revisions import placements
from cellwright.livedocs.sheets import PRIVATE, Sheet, SheetCell, plain, shared_metadata
from cellwright.livedocs.texts import text_edits
from cellwright.notebook.cells import is_valid_id, new_id
from cellwright.notebook.jsontext import same

if TYPE_CHECKING:
    import pycrdt

__all__ = ["SharedNotebook"]

_NBFORMAT_MINOR = 5


class SharedNotebook:
    """One shared notebook, in the form that Jupyter's programs use."""

    def __init__(self, doc: pycrdt.Doc[Any]) -> None:
        from pycrdt import Array, Map  # noqa: PLC0415  # an extra

        self.doc = doc
        self._cells: pycrdt.Array[Any] = doc.get("cells", type=Array)
        self._meta: pycrdt.Map[Any] = doc.get("meta", type=Map)
        self._state: pycrdt.Map[Any] = doc.get("state", type=Map)
        self._known: dict[str, SheetCell] = {}
        self._changed: set[str] | None = None
        """Cells that others edited since the last reading; None means that any may have been, or moved."""
        self._order: list[str] = []
        self._running: set[str] | None = None
        self._subscription = self._cells.observe_deep(self._note)

    @property
    def path(self) -> str | None:
        """Where the document lies on its server by now, if that is told."""
        path = self._state.get("path")
        # Whoever shares a document may have written anything into it.
        return path if isinstance(path, str) and not {".", ".."} & set(path.split("/")) else None

    def __len__(self) -> int:
        return len(self._cells)

    def read(self) -> Sheet:
        """What it says; cells without an id of their own are given one first."""
        if self._changed is None:
            self._mend()
            self._order = [cell["id"] for cell in self._cells]
        cells = []
        for index, cell_id in enumerate(self._order):
            known = self._known.get(cell_id)
            if known is None or self._changed is None or cell_id in self._changed:
                read = SheetCell.of(self._cells[index].to_py())
                known = read if known is None or not read.says(known) else known
                self._known[cell_id] = known
            cells.append(known)
        self._changed = set()
        metadata = self._meta.get("metadata")
        return Sheet(tuple(cells), shared_metadata(metadata.to_py() if metadata is not None else {}))

    def become(self, sheet: Sheet) -> None:
        """Say what the sheet says, by edits that leave as much as can be untouched."""
        before = self.read()
        with self.doc.transaction():
            written = self._arrange(before, sheet)
            olds = before.by_id
            for index, cell in enumerate(sheet.cells):
                if cell.id not in written and olds[cell.id] is not cell:
                    _edit_cell(self._cells[index], olds[cell.id], cell)
            self._edit_metadata(before, sheet)
        self._known = sheet.by_id
        self._order = sheet.ids
        self._changed = set()

    def show_running(self, cell_ids: Iterable[str]) -> None:
        """Let people see which cells run."""
        ids = self.read().ids
        running = set(cell_ids)
        # Whoever was here before us may have left cells that seem to run.
        doubtful = set(ids) if self._running is None else self._running ^ running
        with self.doc.transaction():
            for cell_id in doubtful.intersection(ids):
                cell = self._cells[ids.index(cell_id)]
                state = "running" if cell_id in running else "idle"
                if cell.get("cell_type") == "code" and cell.get("execution_state", "idle") != state:
                    cell["execution_state"] = state
        self._running = running

    # Reading -----------------------------------------------------------------------------------------------------

    def _note(self, events: list[Any]) -> None:
        for event in events:
            path = event.path
            is_named_anew = len(path) == 1 and "id" in event.keys
            if self._changed is None or not path or is_named_anew:
                self._changed = None
                return
            self._changed.add(self._order[path[0]])

    def _mend(self) -> None:
        """See to it that every cell has an id of its own, which two people who move one cell at once may break."""
        if (self._meta.get("nbformat_minor") or 0) < _NBFORMAT_MINOR and len(self._cells):
            self._meta["nbformat_minor"] = float(_NBFORMAT_MINOR)
            self._meta["nbformat"] = 4.0
        seen: dict[str, Any] = {}
        index = 0
        while index < len(self._cells):
            cell = self._cells[index]
            cell_id = cell.get("id")
            if is_valid_id(cell_id) and cell_id not in seen:
                seen[cell_id] = cell
            elif cell_id in seen and same(plain(seen[cell_id].to_py()), plain(cell.to_py())):
                del self._cells[index]
                continue
            else:
                cell["id"] = fresh = new_id(seen)
                seen[fresh] = cell
            index += 1

    # Editing -----------------------------------------------------------------------------------------------------

    def _arrange(self, before: Sheet, sheet: Sheet) -> set[str]:
        """Let the cells of the sheet stand in its order. To move a cell is to write it anew; these are returned."""
        news, written = sheet.by_id, set[str]()
        order: list[str] = []
        for cell in before.cells:
            new = news.get(cell.id)
            if new is not None and self._can_stay(len(order), cell, new):
                order.append(cell.id)
            else:
                del self._cells[len(order)]
        for cell_id, place, _ in list(placements(order, sheet.ids)):
            private: dict[str, Any] = {}
            if cell_id in order:
                private = _private(self._cells[order.index(cell_id)])
                del self._cells[order.index(cell_id)]
                order.remove(cell_id)
            self._cells.insert(place, _new_cell(news[cell_id], private))
            order.insert(place, cell_id)
            written.add(cell_id)
        return written

    def _can_stay(self, index: int, old: SheetCell, new: SheetCell) -> bool:
        return old.kind == new.kind and (old is new or _is_editable(self._cells[index], new))

    def _edit_metadata(self, before: Sheet, sheet: Sheet) -> None:
        from pycrdt import Map  # noqa: PLC0415  # an extra

        if same(before.metadata, sheet.metadata):
            return
        if not isinstance(self._meta.get("metadata"), Map):
            self._meta["metadata"] = Map({})
        _edit_map(self._meta["metadata"], before.metadata or {}, sheet.metadata or {})


def _is_editable(cell: Any, new: SheetCell) -> bool:
    """Whether the cell has the parts that are edited in place; another program may have made it otherwise."""
    from pycrdt import Array, Map, Text  # noqa: PLC0415  # an extra

    parts = isinstance(cell.get("source"), Text) and isinstance(cell.get("metadata"), Map)
    return parts and (new.kind != "code" or isinstance(cell.get("outputs"), Array))


def _private(cell: Any) -> dict[str, Any]:
    """What of a cell's metadata goes with it although no sheet has it."""
    metadata = cell.to_py().get("metadata") or {}
    return {key: metadata[key] for key in PRIVATE & metadata.keys()}


def _new_cell(cell: SheetCell, private: Mapping[str, Any]) -> Any:
    from pycrdt import Array, Map, Text  # noqa: PLC0415  # an extra

    fields: dict[str, Any] = {
        "id": cell.id,
        "cell_type": cell.kind,
        "source": Text(cell.source),
        "metadata": Map({**cell.metadata, **private}),
    }
    if cell.attachments:
        fields["attachments"] = dict(cell.attachments)
    if cell.kind == "code":
        fields["outputs"] = Array([_new_output(output) for output in cell.outputs])
        fields["execution_count"] = cell.execution_count
        fields["execution_state"] = "idle"
    return Map(fields)


def _edit_cell(cell: Any, old: SheetCell, new: SheetCell) -> None:
    # The text is taken out first: an augmented assignment to the map's item would write the item anew.
    _edit_text(cell["source"], new.source)
    if not same(old.metadata, new.metadata):
        _edit_map(cell["metadata"], old.metadata, new.metadata)
    if not same(old.attachments, new.attachments):
        if new.attachments:
            cell["attachments"] = dict(new.attachments)
        else:
            del cell["attachments"]
    if new.kind == "code":
        if not same(old.outputs, new.outputs):
            _edit_outputs(cell["outputs"], list(new.outputs))
        if old.execution_count != new.execution_count:
            cell["execution_count"] = new.execution_count


def _edit_text(text: Any, after: str) -> None:
    """Make a shared text say this; its places are counted in bytes of UTF-8."""
    before = str(text)
    for edit in reversed(text_edits(before, after)):
        start = len(before[: edit.start].encode())
        stop = start + len(before[edit.start : edit.stop].encode())
        if stop > start:
            del text[start:stop]
        if edit.text:
            text.insert(start, edit.text)


def _edit_map(target: Any, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for key in old.keys() - new.keys():
        del target[key]
    for key, value in new.items():
        if key not in old or not same(old[key], value):
            target[key] = value


def _edit_outputs(target: Any, after: list[Mapping[str, Any]]) -> None:
    """Keep the outputs that are the same, and let a stream that grew grow."""
    kept = 0
    for shown, output in zip(list(target), after, strict=False):
        before = plain(shown.to_py())
        if not same(before, output):
            if not _grows(shown, before, output):
                break
            _edit_text(shown["text"], output["text"])
        kept += 1
    if len(target) > kept:
        del target[kept:]
    target.extend([_new_output(output) for output in after[kept:]])


def _grows(shown: Any, before: Mapping[str, Any], output: Mapping[str, Any]) -> bool:
    from pycrdt import Text  # noqa: PLC0415  # an extra

    return (
        output.get("output_type") == "stream"
        and isinstance(output.get("text"), str)
        and isinstance(shown.get("text"), Text)
        and same({**before, "text": ""}, {**output, "text": ""})
    )


def _new_output(output: Mapping[str, Any]) -> Any:
    from pycrdt import Map, Text  # noqa: PLC0415  # an extra

    fields = dict(output)
    if fields.get("output_type") == "stream" and isinstance(fields.get("text"), str):
        fields["text"] = Text(fields["text"])
    return Map(fields)
