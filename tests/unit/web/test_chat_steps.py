"""Steps of a run as the page tells them. Pure: no daemon, no browser."""

from __future__ import annotations

from typing import Any

from cellwright.web._chat_turns import StepView, entry_of, prose_html, step_views, total_of, words_of


def entry(step: int, kind: str, event: str = "ended", **facts: Any) -> dict[str, Any]:
    ended = {"took": 1.0, "failed": False} if event == "ended" else {}
    return {"event": event, "step": step, "kind": kind, "branch": "main", **ended, **facts}


def views(entries: list[dict[str, Any]], *, goes_on: bool = True) -> list[StepView]:
    return step_views(entries, goes_on=goes_on)


def test_a_step_that_goes_on_is_told_once_and_then_with_its_end() -> None:
    began = entry(1, "call", "began", tool="cell_add_and_run")
    [running] = views([began])
    assert (running.sentence, running.state, running.seconds) == ("Ran a new cell", "running", None)
    [ended] = views([began, entry(1, "call", tool="cell_add_and_run", failed=True)])
    assert (ended.state, ended.seconds) == ("failed", 1.0)


def test_branches_are_counted() -> None:
    found = views([entry(0, "branch"), *(entry(n, "request", branch=f"main.{n}") for n in (1, 2))])
    assert [view.branch for view in found] == ["", "branch 1 of 2", "branch 2 of 2"]


def test_a_cell_that_did_the_same_twice_is_shown_once() -> None:
    run = {"code": "1/0", "state": "error", "stdout": "", "stderr": "ZeroDivisionError"}
    other = {**run, "code": "1/1"}
    [view] = views([entry(1, "call", runs=[run, run, other])])
    assert [run.code.striptags() for run in view.runs] == ["1/0", "1/1"]


def test_what_a_model_said_last_is_not_told_twice() -> None:
    steps = [
        entry(1, "request", text="Let me see."),
        entry(2, "request", text="It is 7."),
        entry(3, "answer"),
    ]
    assert [view.said for view in views(steps)] == ["Let me see.", ""]
    assert [view.said for view in views(steps[:2])] == ["Let me see.", "It is 7."]


def test_words_that_come_are_told_until_the_step_ends_or_begins_anew() -> None:
    heard = [{"event": "heard", "step": 1, "kind": "text", "text": text} for text in ("It ", "is")]
    assert words_of(heard) == "It is"
    assert words_of([*heard, {"event": "heard", "step": 1, "kind": "again", "text": "cut"}]) == ""
    assert words_of([*heard, entry(1, "request")]) == ""


def test_what_was_spent_is_that_of_the_last_step_that_ended() -> None:
    assert total_of([])["usd"] == 0
    assert total_of([entry(1, "request", total={"usd": 1.0}), entry(2, "call", "began")]) == {"usd": 1.0}


def test_a_step_of_a_trace_reads_as_one_of_the_feed() -> None:
    reply = {"parts": [{"part_kind": "thinking", "content": "hm"}, {"part_kind": "text", "content": "Hi"}]}
    step = {
        "number": 4,
        "kind": "request",
        "branch": "main",
        "state": "failed",
        "reply": reply,
        "took": 2.0,
    }
    [view] = views([entry_of(step)])
    assert (view.number, view.state, view.said, view.seconds) == (4, "failed", "Hi", 2.0)
    [goes_on] = views([entry_of({**step, "state": "open"})])
    assert goes_on.state == "running"
    [left] = views([entry_of({**step, "state": "open"})], goes_on=False)
    assert left.state == "unfinished"


def test_prose_fits_into_a_page_whatever_its_author_wants() -> None:
    source = '# Main\n\n##### Low\n\n<p style="color: red">a</p>\n\na[^1] style="b"\n\n[^1]: c'
    html = prose_html(source, "said-1")
    assert 'id="main"' not in html
    assert '<h3 id="said-1-main"' in html
    assert "<h5" not in html
    assert html.count("style=") == 1, "the one that is words"
    assert 'href="#said-1-note' in html
