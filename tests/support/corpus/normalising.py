"""Makes two runs of one notebook comparable: what must be equal stays, what cannot be is replaced by its name.

Pure. Some differences are there in any two runs (how a stream is cut into messages, the working directory, the names
that IPython gives to compiled cells, the home directory that it abbreviates in a traceback) and are always removed. The rest is removed by rules, only for the notebooks whose
manifest entry names them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

Json = Any
Rule = Callable[[str], str]


def _replacing(pattern: str, name: str) -> Rule:
    compiled = re.compile(pattern)
    return lambda text: compiled.sub(f"<{name}>", text)


RULES: dict[str, Rule] = {
    "addresses": _replacing(r"\b0x[0-9a-f]{6,16}\b", "address"),
    "durations": _replacing(r"\b\d+(?:\.\d+)?(?:e-?\d+)? ?(?:ns|[µμ]s|us|ms|s|min)\b", "duration"),
    "timestamps": _replacing(
        r"\b\d{4}-\d\d-\d\d(?:[ T]|, )\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?"
        r"|datetime\.datetime\([\d, ]+\)",
        "timestamp",
    ),
    "unix times": _replacing(r"\b1[5-9]\d{8}\.\d+\b", "unix time"),
    "widget ids": _replacing(r"\b[0-9a-f]{32}\b", "widget id"),
    "svg ids": _replacing(r"(?<=[\"#])[A-Za-z][0-9a-f]{10}(?=[\")])", "svg id"),
}
COMPILED_CELL = re.compile(r"(?:/[\w.-]+)*/ipykernel_\d+/\d+\.py")
FRAME_BELOW_HOME = re.compile(r"(?<=File )((?:\x1b\[[\d;]*m)*)~/")


def normalised_cells(
    notebook: Json, *, directory: str, home: str, volatile: Sequence[str] = ()
) -> list[Json]:
    """What a run left in the code cells of a notebook, in a form that another run must equal.

    ``home`` is what ``~`` stood for in that run: a confined kernel has another home than an unconfined one.
    """
    rules = [RULES[name] for name in volatile]

    def clean(text: str) -> str:
        text = FRAME_BELOW_HOME.sub(rf"\g<1>{home}/", text)
        text = COMPILED_CELL.sub("<compiled cell>", text.replace(directory, "<directory>"))
        for rule in rules:
            text = rule(text)
        return text

    return [
        {
            "source": _joined(cell["source"]),
            "execution_count": cell.get("execution_count"),
            "outputs": [_cleaned(output, clean) for output in _merged_streams(cell.get("outputs", []))],
        }
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def _merged_streams(outputs: Sequence[Json]) -> list[Json]:
    """One output per stream between two outputs of another kind, stderr after stdout.

    How often a kernel flushes is a matter of time, and so is which of two streams it flushes first.
    """
    merged: list[Json] = []
    streams: dict[str, str] = {}

    def end_streams() -> None:
        merged.extend(
            {"output_type": "stream", "name": name, "text": streams[name]}
            for name in sorted(streams, reverse=True)
        )
        streams.clear()

    for output in map(_without_digest, outputs):
        if output["output_type"] == "stream":
            streams[output["name"]] = streams.get(output["name"], "") + _joined(output["text"])
        else:
            end_streams()
            merged.append(output)
    end_streams()
    return merged


def _without_digest(output: Json) -> Json:
    """An output without what our kernels say of it beside what any kernel shows."""
    if "cellwright" not in output.get("metadata", {}):
        return output
    return {
        **output,
        "metadata": {key: held for key, held in output["metadata"].items() if key != "cellwright"},
    }


def _cleaned(value: Json, clean: Rule) -> Json:
    """The same value with every text in it cleaned, and texts stored as lists of lines joined."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        if value and all(isinstance(item, str) for item in value):
            return clean(_joined(value))
        return [_cleaned(item, clean) for item in value]
    if isinstance(value, dict):
        return {key: _cleaned(item, clean) for key, item in value.items()}
    return value


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)
