"""What the room offers to the rooms above changes only on purpose."""

from __future__ import annotations

from inline_snapshot import snapshot

import cellwright.notebook


def test_public_api_changes_only_on_purpose() -> None:
    assert sorted(cellwright.notebook.__all__) == snapshot(
        [
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
    )
