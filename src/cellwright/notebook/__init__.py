"""Notebook documents: read, edit, merge and write ``.ipynb`` files without disturbing what was not touched.

Pure and synchronous. Knows nothing of kernels, sessions or settings, which stand above; below are only the errors.
"""

from __future__ import annotations

from cellwright.notebook.cells import Cell, CellKind, ran_mark, source_hash
from cellwright.notebook.comparison import Comparison, Difference, Rules, compare_outputs
from cellwright.notebook.document import (
    CellAdded,
    CellDeleted,
    CellMetadataSet,
    CellMoved,
    Change,
    Document,
    DocumentReplaced,
    NotebookMetadataSet,
    OutputsSet,
    SourceChanged,
    add_cell,
    change_source,
    decode_change,
    delete_cell,
    encode_change,
    inject_parameters,
    move_cell,
    parse_parameter,
)
from cellwright.notebook.files import (
    FileState,
    changed_since,
    create_exclusively,
    create_notebook_file,
    file_state,
    read_notebook,
    remove_leftovers,
    slug,
    write_atomically,
)
from cellwright.notebook.merge import Conflict, Merge, merge
from cellwright.notebook.outputs import OutputCollector

__all__ = [
    "Cell",
    "CellAdded",
    "CellDeleted",
    "CellKind",
    "CellMetadataSet",
    "CellMoved",
    "Change",
    "Comparison",
    "Conflict",
    "Difference",
    "Document",
    "DocumentReplaced",
    "FileState",
    "Merge",
    "NotebookMetadataSet",
    "OutputCollector",
    "OutputsSet",
    "Rules",
    "SourceChanged",
    "add_cell",
    "change_source",
    "changed_since",
    "compare_outputs",
    "create_exclusively",
    "create_notebook_file",
    "decode_change",
    "delete_cell",
    "encode_change",
    "file_state",
    "inject_parameters",
    "merge",
    "move_cell",
    "parse_parameter",
    "ran_mark",
    "read_notebook",
    "remove_leftovers",
    "slug",
    "source_hash",
    "write_atomically",
]
