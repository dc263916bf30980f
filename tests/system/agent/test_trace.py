"""Steps that are kept and read back: whole, in order, without secrets, whatever becomes of the run."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from cellwright.agent.models.requests import Delta
from cellwright.agent.trace.export import read_run, summary
from cellwright.agent.trace.redaction import MARK, Redactor
from cellwright.agent.trace.steps import CellRun, Seconds, Step, Trace
from cellwright.agent.trace.store import LARGE, VERSION, TraceLog, decoded, files_of, messages_json
from cellwright.delegation import Usage
from cellwright.errors import AgentError
from tests.waiting import LIMIT_S

pytestmark = pytest.mark.anyio
KEPT_BACK = "xk-9f8e7d6c5b4a"


def log_at(directory: Path, name: str = "run-1") -> TraceLog:
    return TraceLog(directory / "runs" / f"{name}.jsonl", Redactor([KEPT_BACK]))


def talk(turns: int) -> list[ModelMessage]:
    messages: list[ModelMessage] = []
    for turn in range(turns):
        messages.append(ModelRequest(parts=[UserPromptPart(f"question {turn} " + "words " * 50)]))
        messages.append(ModelResponse(parts=[TextPart(f"answer {turn}")]))
    return messages


async def asked(trace: Trace, prompt: Sequence[ModelMessage], branch: str = "main") -> Step:
    async with trace.step("request", role="act", branch=branch) as step:
        step.prompt, step.model = prompt, "test:scripted"
        step.reply = ModelResponse(parts=[TextPart("so be it")])
        step.usage, step.seconds = Usage(100, 20, 50, 0.5), Seconds(model=1.5)
    return step


# Keeping ---------------------------------------------------------------------------------------------------------


async def test_a_run_is_read_back_as_it_was(tmp_path: Path) -> None:
    async with log_at(tmp_path) as log:
        trace = Trace("run-1", [log])
        trace.pattern = "react"
        prompt = talk(2)
        await asked(trace, prompt)
        async with trace.step("call", role="act") as step:
            step.tool, step.arguments, step.session_id = "cell_add_and_run", {"content": "1/0"}, "s-1"
            step.result, step.pictures, step.failed = "ZeroDivisionError", 1, True
            step.runs = [CellRun("x-1", "c1", "1/0", "error", "", "ZeroDivisionError", 0.25)]
            step.seconds = Seconds(kernel=0.25, engine=0.1)
        await log.note("environment", {"cellwright": "1"})
        await log.note("outcome", {"ok": True})
    run = read_run(log.path)
    assert (run["run_id"], run["pattern"], run["version"], run["torn"]) == ("run-1", "react", VERSION, False)
    assert run["ended"] >= run["began"]
    assert (run["environment"], run["outcome"]) == ({"cellwright": "1"}, {"ok": True})
    request, call = run["steps"]
    assert request["prompt"] == messages_json(prompt)
    assert request["reply"]["parts"][0]["content"] == "so be it"
    assert request["usage"] == {"tokens_in": 100, "tokens_out": 20, "cached": 50, "money": 0.5}
    assert call["runs"] == [asdict(one) for one in trace.steps[1].runs]
    assert (call["state"], call["arguments"], call["pictures"]) == ("failed", {"content": "1/0"}, 1)
    assert run["branches"] == [{"branch": "main", "session_id": "s-1", "steps": [1, 2], "children": []}]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.just("$file"), inner, max_size=3)
    ),
    max_leaves=6,
)
messages = st.one_of(
    st.builds(lambda text: ModelRequest(parts=[UserPromptPart(text)]), st.text()),
    st.builds(lambda text: ModelResponse(parts=[TextPart(text)]), st.text()),
    st.builds(
        lambda data: ModelRequest(
            parts=[UserPromptPart(["look", BinaryContent(data, media_type="image/png")])]
        ),
        st.binary(max_size=40),
    ),
    st.builds(
        lambda arguments, back: (
            ModelResponse(parts=[ToolCallPart("tool", arguments, "id1")])
            if back
            else ModelRequest(parts=[ToolReturnPart("tool", arguments, "id1")])
        ),
        st.dictionaries(st.text(), json_values, max_size=2),
        st.booleans(),
    ),
)
steps = st.builds(
    dict,
    kind=st.sampled_from(["request", "call", "answer"]),
    branch=st.sampled_from(["main", "main.1", "main.2", "main.1.1"]),
    length=st.integers(0, 6),
    arguments=st.none() | st.dictionaries(st.text(), json_values, max_size=3),
    result=st.none() | st.text(),
    note=st.none() | st.text(),
    runs=st.lists(
        st.builds(CellRun, st.text(), st.none() | st.text(), st.text(), st.text(), st.text()), max_size=2
    ),
    usage=st.builds(
        Usage, st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9), st.floats(0, 1e6)
    ),
)


@settings(max_examples=25)
@given(history=st.lists(messages, max_size=6), taken=st.lists(steps, max_size=5))
def test_whatever_was_written_is_read_back_equal(
    tmp_path_factory: pytest.TempPathFactory, history: list[ModelMessage], taken: list[dict[str, Any]]
) -> None:
    path = tmp_path_factory.mktemp("log") / "run-1.jsonl"
    trace = anyio.run(_written, path, history, taken)
    run = read_run(path)
    assert [step["number"] for step in run["steps"]] == [step.number for step in trace.steps]
    for step, read in zip(trace.steps, run["steps"], strict=True):
        assert read["prompt"] == messages_json(step.prompt)
        assert read["runs"] == [asdict(one) for one in step.runs]
        assert (read["arguments"], read["result"], read["note"]) == (step.arguments, step.result, step.note)
        assert (read["usage"], read["took"], read["began"]) == (asdict(step.usage), step.took, step.began)
        assert (read["kind"], read["branch"], read["state"]) == (step.kind, step.branch, "ok")


async def _written(path: Path, history: list[ModelMessage], taken: list[dict[str, Any]]) -> Trace:
    async with TraceLog(path, Redactor()) as log:
        trace = Trace("run-1", [log])
        for one in taken:
            async with trace.step(one["kind"], branch=one["branch"]) as step:
                step.prompt = history[: one["length"]]
                for name in ("arguments", "result", "note", "runs", "usage"):
                    setattr(step, name, one[name])
    assert log.trouble is None
    return trace


async def test_sixty_requests_store_each_message_once_whichever_branch_sends_it(tmp_path: Path) -> None:
    history = talk(60)
    async with log_at(tmp_path) as log:
        trace = Trace("run-1", [log])
        for turn in range(60):
            await asked(trace, history[: 2 * turn + 1], branch=f"main.{turn % 3}")
    lines = [json.loads(line) for line in log.path.read_bytes().splitlines()]
    assert sum(line["line"] == "message" for line in lines) == 119
    whole = len(json.dumps(messages_json(history)))
    assert log.path.stat().st_size < 2 * whole + 60 * 1_500
    run = read_run(log.path)
    assert all(
        step["prompt"] == messages_json(history[: 2 * turn + 1]) for turn, step in enumerate(run["steps"])
    )


async def test_a_history_that_goes_on_does_not_change_what_was_sent(tmp_path: Path) -> None:
    history = talk(1)
    async with log_at(tmp_path) as log:
        trace = Trace("run-1", [log])
        await asked(trace, history)
        sent = messages_json(history)
        history.append(ModelRequest(parts=[UserPromptPart("more")]))
        assert messages_json(trace.steps[0].prompt) == sent
    assert read_run(log.path)["steps"][0]["prompt"] == sent


async def test_large_texts_lie_beside_the_log_and_come_back(tmp_path: Path) -> None:
    large = "é\ud800" + "0123456789" * (LARGE // 10)
    async with log_at(tmp_path) as log:
        trace = Trace("run-1", [log])
        for _ in range(2):
            async with trace.step("call") as step:
                step.result = large
                step.runs = [CellRun("x-1", "c1", "print(…)", "ok", stdout=large)]
    assert log.trouble is None
    assert log.path.stat().st_size < 5_000
    kept = list(files_of(log.path).iterdir())
    assert len(kept) == 1
    assert all(step["result"] == step["runs"][0]["stdout"] == large for step in read_run(log.path)["steps"])
    assert {stat.S_IMODE(one.stat().st_mode) for one in (log.path, *kept)} == {0o600}
    assert stat.S_IMODE(files_of(log.path).stat().st_mode) == 0o700


async def test_no_secret_is_in_any_file_of_a_log(tmp_path: Path) -> None:
    async with log_at(tmp_path) as log:
        trace = Trace("run-1", [log])
        with pytest.raises(ValueError, match=KEPT_BACK):
            await _failing(trace)
        await log.note("environment", {"OPENAI_API_KEY": KEPT_BACK})
    for file in [log.path, *files_of(log.path).iterdir()]:
        assert KEPT_BACK.encode() not in file.read_bytes()
    [step] = read_run(log.path)["steps"]
    assert step["error"] == f"ValueError: {MARK}"
    assert step["prompt"][0]["parts"][0]["content"] == f"use {MARK}"


async def _failing(trace: Trace) -> None:
    async with trace.step("call", role=KEPT_BACK, branch="main") as step:
        step.prompt = [ModelRequest(parts=[UserPromptPart(f"use {KEPT_BACK}")], instructions=KEPT_BACK)]
        step.reply = ModelResponse(parts=[ToolCallPart("t", json.dumps({"key": KEPT_BACK}), "id")])
        step.arguments = {KEPT_BACK: [KEPT_BACK, json.dumps(KEPT_BACK)]}
        step.result = KEPT_BACK + "x" * LARGE
        step.runs = [CellRun("x-1", None, f"k = '{KEPT_BACK}'", "ok", KEPT_BACK, KEPT_BACK)]
        raise ValueError(KEPT_BACK)


async def test_values_that_json_has_no_word_for_are_kept_as_texts(tmp_path: Path) -> None:
    async with log_at(tmp_path) as log:
        trace = Trace("run-1", [log])
        async with trace.step("call") as step:
            step.arguments = {"nan": float("nan"), "path": Path("a"), "set": {1}}
    assert log.trouble is None
    [step_read] = read_run(log.path)["steps"]
    assert step_read["arguments"] == {"nan": "nan", "path": "a", "set": [1]}


# What may go wrong -----------------------------------------------------------------------------------------------


KILLED = """
import anyio, os, signal, sys
from pathlib import Path
from cellwright.agent.trace.redaction import Redactor
from cellwright.agent.trace.steps import Trace
from cellwright.agent.trace.store import TraceLog

async def main():
    log = TraceLog(Path(sys.argv[1]), Redactor())
    trace = Trace("run-1", [log])
    async with trace.step("question") as step:
        step.note = "why"
    async with trace.step("call", role="act", branch="main.1") as step:
        async with trace.step("answer"):
            pass
        os.kill(os.getpid(), signal.SIGKILL)

anyio.run(main)
"""


def test_a_run_that_is_killed_shows_the_step_it_was_at(tmp_path: Path) -> None:
    path = tmp_path / "run-1.jsonl"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, timeout=LIMIT_S)
    assert done.returncode == -signal.SIGKILL
    run = read_run(path)
    assert [(step["kind"], step["state"]) for step in run["steps"]] == [
        ("question", "ok"),
        ("call", "open"),
        ("answer", "ok"),
    ]
    assert run["ended"] is None
    assert run["steps"][1]["branch"] == "main.1"
    told = summary(run)
    assert (told["complete"], told["total"]["steps"]) == (False, 3)


async def test_a_torn_last_line_costs_that_line_only(tmp_path: Path) -> None:
    async with log_at(tmp_path) as log:
        trace = Trace("run-1", [log])
        await asked(trace, talk(1))
        await asked(trace, talk(2))
    whole = log.path.read_bytes()
    ends = [line for line in whole.splitlines(keepends=True) if b'"ended","step"' in line]
    cut = whole.index(ends[-1]) + len(ends[-1]) // 2
    log.path.write_bytes(whole[:cut])
    run = read_run(log.path)
    assert run["torn"]
    assert [step["state"] for step in run["steps"]] == ["ok", "open"]


async def test_the_end_of_a_step_is_told_and_kept_also_where_the_run_is_cancelled(tmp_path: Path) -> None:
    told: list[int] = []

    class Waiting:
        def began(self, step: Step) -> None: ...
        def heard(self, step: Step, delta: Delta) -> None: ...
        async def ended(self, step: Step) -> None:
            await anyio.lowlevel.checkpoint()
            told.append(step.number)

    async with log_at(tmp_path) as log:
        trace = Trace("run-1", [Waiting(), log])
        with anyio.CancelScope() as scope:
            async with trace.step("request"):
                scope.cancel()
                await anyio.sleep_forever()
    [step] = read_run(log.path)["steps"]
    assert told == [1]
    assert step["state"] == "failed"
    assert step["error"].startswith("CancelledError")


async def test_a_watcher_that_breaks_costs_nobody_else_the_step(tmp_path: Path) -> None:
    class Broken:
        def began(self, step: Step) -> None: ...
        def heard(self, step: Step, delta: Delta) -> None: ...
        async def ended(self, step: Step) -> None:
            raise RuntimeError(step.kind)

    async with log_at(tmp_path) as log:
        await asked(Trace("run-1", [Broken(), log]), talk(1))
    assert len(read_run(log.path)["steps"]) == 1


@pytest.mark.parametrize("cut", [True, False], ids=["cut back", "not even that"])
async def test_a_disk_that_is_full_does_not_stop_a_run_and_spoils_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, cut: bool
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with log_at(tmp_path) as log:
        trace = Trace("run-1", [log])
        await asked(trace, talk(1))
        if not cut:
            monkeypatch.setattr(os, "ftruncate", lambda *_: (tmp_path / "nothing").stat())
        resource.setrlimit(resource.RLIMIT_FSIZE, (log.path.stat().st_size + 40, limits[1]))
        try:
            await asked(trace, talk(2))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        await asked(trace, talk(1))
    assert "File too large" in str(log.trouble)
    run = read_run(log.path)
    assert run["torn"] is not cut
    assert [step["number"] for step in run["steps"]] == [1, 3]
    lines = [decoded(line) or {} for line in log.path.read_bytes().splitlines()]
    assert [line["step"]["number"] for line in lines if line.get("line") == "began"] == [1, 3]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is not the trace"),
        (b"hello\n", "is not the trace"),
        (b'{"line":"run","version":99,"run_id":"run-1","began":1}\n', "version 99"),
    ],
)
def test_what_is_no_log_or_a_newer_one_is_refused_with_the_reason(
    tmp_path: Path, content: bytes, why: str
) -> None:
    path = tmp_path / "run-1.jsonl"
    path.write_bytes(content)
    with pytest.raises(AgentError, match=why):
        read_run(path)
    with pytest.raises(AgentError, match="cannot be read"):
        read_run(tmp_path / "other.jsonl")


# Totals ----------------------------------------------------------------------------------------------------------


async def test_totals_are_told_for_the_run_its_roles_branches_and_models(tmp_path: Path) -> None:
    async with log_at(tmp_path) as log:
        trace = Trace("run-1", [log])
        await asked(trace, talk(1))
        await asked(trace, talk(1), branch="main.1.2")
        async with trace.step("call", role="act", branch="main.1.2") as step:
            step.failed, step.seconds = True, Seconds(kernel=2.0)
            step.runs = [CellRun("x-1", "c1", "1", "ok")]
    run = read_run(log.path)
    told = summary(run)
    assert told["total"] == {
        "steps": 3, "requests": 2, "calls": 1, "cell_runs": 1, "failed": 1,
        "tokens_in": 200, "tokens_out": 40, "cached": 100, "money": 1.0,
        "model_s": 3.0, "kernel_s": 2.0, "engine_s": 0.0,
    }  # fmt: skip
    assert {name: group["steps"] for name, group in told["branches"].items()} == {"main": 1, "main.1.2": 2}
    assert {name: group["steps"] for name, group in told["models"].items()} == {"test:scripted": 2}
    assert {name: group["failed"] for name, group in told["roles"].items()} == {"act": 1}
    [main] = run["branches"]
    assert [(one["branch"], one["steps"]) for one in main["children"]] == [("main.1", [])]
    assert main["children"][0]["children"][0]["steps"] == [2, 3]


async def test_the_reference_page_names_every_key_and_its_example_is_a_step(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "trace.md").read_text()
    async with log_at(tmp_path) as log:
        trace = Trace("run-1", [log])
        async with trace.step("call") as step:
            step.runs = [CellRun("x-1", "c1", "1", "ok")]
    run = read_run(log.path)
    [read], [branch], told = run["steps"], run["branches"], summary(run)
    parts = [run, read, branch, *read["runs"], read["usage"], read["seconds"], told, told["total"]]
    missing = {key for part in parts for key in part if f"`{key}`" not in page and f'"{key}"' not in page}
    assert not missing
    example = json.loads(page.partition("```json\n")[2].partition("```")[0])
    assert example.keys() == read.keys()
    assert example["runs"][0].keys() == read["runs"][0].keys()
