"""Where spans go: to the provider of the program that we run in, else as the standard ``OTEL_*`` variables say.

Only the API of OpenTelemetry comes with the agent. Exporting takes its SDK and an exporter, which whoever wants it
installs; without a word in the environment neither is loaded.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
from collections.abc import Mapping
from functools import cache

from opentelemetry import trace

__all__ = ["contents_wanted", "exporter_names", "tracer_provider"]

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
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource  # noqa: PLC0415  # only where it is wanted
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
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
