from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracerProvider, ProxyTracerProvider, SpanKind, StatusCode
from pydantic_ai.messages import (
    BinaryContent,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)

from cellwright.agent.trace.redaction import MARK, Redactor
from cellwright.agent.trace.spans import StepSpans, contents_wanted, exporter_names, tracer_provider
from cellwright.agent.trace.steps import CellRun, Trace
from cellwright.delegation import Usage
from tests.waiting import LIMIT_S

pytestmark = pytest.mark.anyio
KEPT_BACK = "xk-9f8e7d6c5b4a"


async def spans_of(*, contents: bool) -> dict[str, ReadableSpan]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    about = {"conversation_id": "c-1", "provider": provider, "contents": contents}
    with StepSpans("run-1", Redactor([KEPT_BACK]), **about) as spans:
        trace = Trace("run-1", [spans])
        trace.pattern = "react"
        async with trace.step("request", role="act", branch="main.1") as step:
            picture = BinaryContent(b"picture", media_type="image/png")
            step.prompt = [
                ModelRequest(parts=[UserPromptPart(["see " + KEPT_BACK, picture])], instructions="Be brief")
            ]
            step.reply = ModelResponse(
                parts=[TextPart("as you wish"), ToolCallPart("t", {"a": 1}, "id1")],
                model_name="gemini-x-001",
                finish_reason="tool_call",
            )
            step.model, step.session_id, step.usage = "google:gemini-x", "s-1", Usage(10, 5, 4, 0.25)
        async with trace.step("call", role="act") as step:
            step.tool, step.arguments, step.result = (
                "cell_add_and_run",
                {"content": KEPT_BACK},
                f"ok {KEPT_BACK}",
            )
            step.runs = [CellRun("x-1", "c1", "code", "ok")]
        with pytest.raises(OSError, match="gone"):
            async with trace.step("verify"):
                raise OSError(f"gone with {KEPT_BACK}")
    return {span.name: span for span in exporter.get_finished_spans()}


async def test_a_run_is_one_trace_with_a_span_for_each_step() -> None:
    spans = await spans_of(contents=False)
    assert set(spans) == {
        "invoke_agent cellwright",
        "chat gemini-x",
        "execute_tool cell_add_and_run",
        "cellwright.verify",
    }
    root = spans.pop("invoke_agent cellwright")
    assert root.context is not None
    assert root.parent is None
    for span in spans.values():
        assert span.parent is not None
        assert span.parent.span_id == root.context.span_id
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.end_time >= span.start_time


async def test_attributes_follow_the_conventions_for_generative_models() -> None:
    spans = await spans_of(contents=False)
    request = spans["chat gemini-x"]
    assert request.kind is SpanKind.CLIENT
    about = dict(request.attributes or {})
    assert float(str(about.pop("cellwright.seconds.engine"))) > 0
    assert about == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.request.model": "gemini-x",
        "gen_ai.response.model": "gemini-x-001",
        "gen_ai.response.finish_reasons": ("tool_call",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "cellwright.money_usd": 0.25,
        "cellwright.step": 1,
        "cellwright.kind": "request",
        "cellwright.role": "act",
        "cellwright.pattern": "react",
        "cellwright.branch": "main.1",
        "cellwright.session": "s-1",
    }
    call = spans["execute_tool cell_add_and_run"].attributes or {}
    assert (call["gen_ai.operation.name"], call["gen_ai.tool.name"]) == ("execute_tool", "cell_add_and_run")
    assert (call["cellwright.cells"], call["cellwright.executions"]) == (("c1",), ("x-1",))
    root = spans["invoke_agent cellwright"].attributes or {}
    assert (root["gen_ai.operation.name"], root["gen_ai.conversation.id"]) == ("invoke_agent", "c-1")
    assert (root["gen_ai.usage.input_tokens"], root["cellwright.run"]) == (10, "run-1")


async def test_a_step_that_fails_is_an_error_with_its_type_and_no_secret() -> None:
    failed = (await spans_of(contents=False))["cellwright.verify"]
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.status.description == f"OSError: gone with {MARK}"
    assert (failed.attributes or {})["error.type"] == "OSError"


async def test_contents_are_told_only_where_they_are_allowed_and_never_with_secrets() -> None:
    silent = await spans_of(contents=False)
    told = await spans_of(contents=True)
    assert "messages" not in " ".join(silent["chat gemini-x"].attributes or {})
    request, call = (
        told["chat gemini-x"].attributes or {},
        told["execute_tool cell_add_and_run"].attributes or {},
    )
    [sent] = json.loads(str(request["gen_ai.input.messages"]))
    assert (sent["role"], sent["parts"][0]) == ("user", {"type": "text", "content": f"see {MARK}"})
    [said] = json.loads(str(request["gen_ai.output.messages"]))
    assert [part["type"] for part in said["parts"]] == ["text", "tool_call"]
    assert json.loads(str(request["gen_ai.system_instructions"])) == [{"type": "text", "content": "Be brief"}]
    assert json.loads(str(call["gen_ai.tool.call.arguments"])) == {"content": MARK}
    assert call["gen_ai.tool.call.result"] == f"ok {MARK}"
    everything = json.dumps([dict(span.attributes or {}) for span in told.values()])
    assert KEPT_BACK not in everything
    assert "cGljdHVyZQ" not in everything  # the picture


async def test_without_a_provider_nothing_is_done() -> None:
    with StepSpans("run-1", Redactor(), provider=NoOpTracerProvider()) as spans:
        trace = Trace("run-1", [spans])
        async with trace.step("request"):
            assert not spans._open


@pytest.mark.parametrize(
    ("said", "wanted"),
    [("true", True), ("SPAN_ONLY", True), ("span_and_event", True), ("event_only", False), ("", False)],
)
def test_the_standard_variable_says_whether_contents_are_told(said: str, *, wanted: bool) -> None:
    assert contents_wanted({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": said}) is wanted


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({}, ()),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317"}, ()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317"}, ("otlp_proto_grpc",)),
        (
            {"OTEL_TRACES_EXPORTER": "console, otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
            ("console", "otlp_proto_http"),
        ),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "true"}, ()),
    ],
)
def test_the_standard_variables_say_where_spans_go(
    environment: dict[str, str], names: tuple[str, ...]
) -> None:
    assert exporter_names(environment) == names


EXPORTED = """
from cellwright.agent.trace.redaction import Redactor
from cellwright.agent.trace.spans import StepSpans
from cellwright.agent.trace.spans import tracer_provider

assert tracer_provider() is tracer_provider()
with StepSpans("run-1", Redactor()):
    pass
"""


def test_spans_go_where_the_environment_says(tmp_path: Path) -> None:
    environment = {**os.environ, "OTEL_TRACES_EXPORTER": "console,not-there"}
    done = subprocess.run(
        [sys.executable, "-c", EXPORTED],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    span = json.loads(done.stdout)
    assert span["name"] == "invoke_agent cellwright"
    assert span["resource"]["attributes"]["service.name"] == "cellwright"
    assert "spans_not_exported exporter=not-there" in done.stderr


def test_without_a_word_in_the_environment_nothing_is_exported() -> None:
    assert isinstance(tracer_provider(), ProxyTracerProvider)
