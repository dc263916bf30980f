"""The verb that draws, end to end."""

from __future__ import annotations

import json

from tests.system.daemon.conftest import Place

CSV = "month,revenue\nJan,10000\nFeb,12000\n"


def test_a_file_here_becomes_a_picture_and_its_digest(shared: Place) -> None:
    work = shared.root / "work"
    (work / "sales.csv").write_text(CSV)
    done = shared.run(
        "visualize", "sales.csv", "--type", "bar", "--x", "month", "--y", "revenue", "-o", "sales.png"
    )
    assert done.returncode == 0, done.stderr
    assert "Feb" in done.stdout
    assert (work / "sales.png").read_bytes().startswith(b"\x89PNG")
    assert "visualization_manifest.json" in done.stderr


def test_data_from_stdin_is_kept_where_it_is_told_and_found_there_again(shared: Place) -> None:
    done = shared.run(
        "visualize", "-", "--type", "table", "--dir", "months", "-o", "t.html", "--json", given=CSV
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["manifest"] == "months/visualization_manifest.json"
    assert data["outputs"][0]["type"] == "table"
    assert "<table" in (shared.root / "work" / "t.html").read_text()
    again = shared.run("visualize", data["outputs"][0]["data_file"], "--type", "pie", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["outputs"][0]["type"] == "pie_chart"


def test_a_column_that_is_not_there_is_told_with_those_that_are(shared: Place) -> None:
    done = shared.run("visualize", "-", "--type", "bar", "--y", "profit", given=CSV)
    assert done.returncode == 1
    assert "it has month, revenue" in done.stderr
    assert done.stdout == ""


def test_a_file_that_is_no_text_is_told(shared: Place) -> None:
    (shared.root / "work" / "picture.bin").write_bytes(b"\x89PNG\xff")
    done = shared.run("visualize", "picture.bin")
    assert done.returncode == 1
    assert "not UTF-8" in done.stderr
