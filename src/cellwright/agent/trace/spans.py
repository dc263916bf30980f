"""Steps as OpenTelemetry spans: one for the run, below it one for each step, named as the GenAI conventions have it.

Where they go is decided by the program that it runs in, or by the standard variables (see ``spans``); where nobody
wants them, nothing is done. What was said is told only where the standard variable for contents allows it.
"""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
from collections.abc import Mapping, Sequence
from functools import cache
from types import TracebackType
from typing import Any, Self

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider, set_span_in_context
from opentelemetry.util.types import AttributeValue
from pydantic_ai.messages import ModelMessage, ModelRequest
from pydantic_ai.models.instrumented import InstrumentationSettings

import cellwright
from cellwright.agent.models.requests import Delta
from cellwright.agent.trace.redaction import Redactor
from cellwright.agent.trace.steps import Step
from cellwright.agent.trace.store import jsonable
from cellwright.delegation import Usage

__all__ = ["StepSpans", "contents_wanted", "exporter_names", "tracer_provider"]
_PROVIDERS = {"google": "gcp.gemini", "xai": "x_ai", "grok-grpc": "x_ai"}
"""Names of the conventions, where they differ from ours."""

_NS = 1_000_000_000


class StepSpans:
    """Watches a run. A context manager: the run's own span is there as long as the block."""

    def __init__(
        self,
        run_id: str,
        redactor: Redactor,
        *,
        conversation_id: str | None = None,
        provider: TracerProvider | None = None,
        contents: bool | None = None,
    ) -> None:
        tracer = (provider or tracer_provider()).get_tracer("cellwright.agent", cellwright.__version__)
        self._tracer = tracer
        self._redactor = redactor
        self._contents = contents_wanted() if contents is None else contents
        self._open: dict[int, Span] = {}
        self._usage = Usage()
        facts = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "cellwright",
            "gen_ai.conversation.id": conversation_id,
            "cellwright.run": run_id,
        }
        self._root = tracer.start_span("invoke_agent cellwright", attributes=_known(facts))
        self._below: Context = set_span_in_context(self._root)

    def began(self, step: Step) -> None:
        if self._root.is_recording():
            self._open[step.number] = self._tracer.start_span(
                f"cellwright.{step.kind}",
                context=self._below,
                kind=SpanKind.CLIENT if step.kind == "request" else SpanKind.INTERNAL,
                start_time=int(step.began * _NS),
            )

    def heard(self, step: Step, delta: Delta) -> None:
        """Pieces are no spans."""

    async def ended(self, step: Step) -> None:
        span = self._open.pop(step.number, None)
        if span is None:
            return
        self._usage += step.usage
        span.update_name(_name(step))
        span.set_attributes(_known(attributes_of(step)))
        if self._contents:
            span.set_attributes(_known(self._said(step)))
        if step.failed:
            span.set_status(Status(StatusCode.ERROR, self._redactor.text(step.error or step.note or "")))
        if step.kind == "stop":
            self._root.set_status(Status(StatusCode.ERROR, self._redactor.text(step.note or "")))
        self._root.set_attributes(
            _known({"cellwright.pattern": step.pattern, "cellwright.session": step.session_id})
        )
        span.end(int((step.began + step.took) * _NS))

    def _said(self, step: Step) -> dict[str, Any]:
        instructions = [
            one.instructions for one in step.prompt if isinstance(one, ModelRequest) and one.instructions
        ]
        reply = [step.reply] if step.reply is not None else []
        said = {
            "gen_ai.system_instructions": [{"type": "text", "content": instructions[-1]}]
            if instructions
            else None,
            "gen_ai.input.messages": _conventional(step.prompt),
            "gen_ai.output.messages": _conventional(reply),
            "gen_ai.tool.call.arguments": step.arguments,
            "gen_ai.tool.call.result": step.result,
            "cellwright.code": [run.code for run in step.runs],
            "cellwright.note": step.note,
        }
        return {name: self._as_text(value) for name, value in said.items() if value}

    def _as_text(self, value: Any) -> str:
        if isinstance(value, str):
            return self._redactor.text(value)
        return json.dumps(self._redactor.value(jsonable(value)), ensure_ascii=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for span in self._open.values():
            span.end()
        self._open.clear()
        if self._root.is_recording():
            self._root.set_attributes(_known(_usage(self._usage)))
            if error is not None:
                told = self._redactor.text(f"{type(error).__name__}: {error}")
                self._root.set_attribute("error.type", type(error).__name__)
                self._root.set_status(Status(StatusCode.ERROR, told))
        self._root.end()


def attributes_of(step: Step) -> dict[str, Any]:
    """What is told of a step in any case: no contents. None is not told."""
    about: dict[str, Any] = {
        "cellwright.step": step.number,
        "cellwright.kind": step.kind,
        "cellwright.role": step.role or None,
        "cellwright.pattern": step.pattern or None,
        "cellwright.branch": step.branch,
        "cellwright.session": step.session_id,
        "cellwright.cells": [run.cell_id for run in step.runs if run.cell_id is not None] or None,
        "cellwright.executions": [run.execution_id for run in step.runs] or None,
        "cellwright.seconds.model": step.seconds.model or None,
        "cellwright.seconds.kernel": step.seconds.kernel or None,
        "cellwright.seconds.engine": step.seconds.engine or None,
    }
    if step.kind == "request":
        about |= _request(step)
    if step.kind == "call":
        about |= {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": step.tool,
            "gen_ai.tool.type": "function",
        }
    if step.failed:
        about["error.type"] = (step.error or "").partition(":")[0] or "_OTHER"
    return about


def _request(step: Step) -> dict[str, Any]:
    provider, _, name = (step.model or "").rpartition(":")
    reply = step.reply
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider) or None,
        "gen_ai.request.model": name or None,
        "gen_ai.response.model": reply.model_name if reply is not None else None,
        "gen_ai.response.id": reply.provider_response_id if reply is not None else None,
        "gen_ai.response.finish_reasons": [reply.finish_reason]
        if reply is not None and reply.finish_reason
        else None,
        **_usage(step.usage),
    }


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "gen_ai.usage.input_tokens": usage.tokens_in,
        "gen_ai.usage.output_tokens": usage.tokens_out,
        "gen_ai.usage.cache_read.input_tokens": usage.cached or None,
        "cellwright.money_usd": usage.money,
    }


def _name(step: Step) -> str:
    if step.kind == "request":
        return f"chat {(step.model or '').rpartition(':')[2]}".strip()
    return f"execute_tool {step.tool}" if step.kind == "call" and step.tool else f"cellwright.{step.kind}"


def _conventional(messages: Sequence[ModelMessage]) -> list[Any]:
    """Messages as the conventions write them; of pictures only that there is one."""
    return list(_conventions().messages_to_otel_messages(list(messages)))


@cache
def _conventions() -> InstrumentationSettings:
    return InstrumentationSettings(include_binary_content=False)


def _known(facts: dict[str, Any]) -> dict[str, AttributeValue]:
    return {name: value for name, value in facts.items() if value is not None and value != ""}


# Where spans go: to the provider of the program that we run in, else as the standard ``OTEL_*`` variables
# say.

_CONTENTS = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")

_log = logging.getLogger(__name__)


def contents_wanted(environment: Mapping[str, str] | None = None) -> bool:
    """Whether prompts, replies, arguments and results may be told in spans."""
    said = (os.environ if environment is None else environment).get(_CONTENTS, "").strip().lower()
    return said in {"true", "1", "span", "span_only", "span_and_event"}


def exporter_names(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The exporters that are asked for, by the names under which they are installed; none where nobody asks."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ()
    default = "otlp" if any(environment.get(name) for name in _ENDPOINTS) else "none"
    wanted = environment.get("OTEL_TRACES_EXPORTER") or default
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), "grpc")
    otlp = "otlp_proto_grpc" if protocol.strip() == "grpc" else "otlp_proto_http"
    names = (name.strip() for name in wanted.split(","))
    return tuple(otlp if name == "otlp" else name for name in names if name not in {"", "none"})


def tracer_provider() -> trace.TracerProvider:
    """The program's own provider where it has set one, else one made from the environment, once."""
    current = trace.get_tracer_provider()
    if not isinstance(current, trace.ProxyTracerProvider):
        return current
    names = exporter_names(os.environ)
    return _made(names) if names else current


@cache
def _made(names: tuple[str, ...]) -> trace.TracerProvider:
    try:
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource  # only where it is wanted
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        _log.warning("spans_not_exported install='opentelemetry-sdk opentelemetry-exporter-otlp'")
        return trace.NoOpTracerProvider()
    # `create` puts what OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME say on top of nothing else but this.
    own = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "cellwright"}
    provider = TracerProvider(resource=Resource.create(own))
    for name in names:
        found = tuple(importlib.metadata.entry_points(group="opentelemetry_traces_exporter", name=name))
        if not found:
            _log.warning("spans_not_exported exporter=%s reason='it is not installed'", name)
            continue
        try:
            provider.add_span_processor(BatchSpanProcessor(found[0].load()()))
        except Exception as error:  # noqa: BLE001  # boundary: an exporter's own settings must not stop a run
            _log.warning("spans_not_exported exporter=%s error=%s", name, type(error).__name__)
    return provider
