"""The shape of an allocation: nodes, memory and time, checked, and as arguments of ``sbatch``. Pure; asks nobody."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final

import msgspec

from cellwright.errors import ShapeRefused

__all__ = ["Shape", "memory_bytes", "seconds_of", "shape_arguments", "warning_s"]

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,:=+@-]*")
_CONSTRAINT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:&|*\[\]()-]*")
_GRES: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,:=/-]*")
# `module load /a/file` would run a file; only names from the site's own module path are meant.
_MODULE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+/-]*")
_MEMORY: Final = re.compile(r"([0-9]+)([KMGT]?)B?", re.IGNORECASE)
_EXTRA: Final = re.compile(r"--[a-z][a-z-]*(=[^\x00-\x1f\x7f]*)?")
_TIMES: Final = (
    re.compile(r"(?P<minutes>[0-9]+)"),
    re.compile(r"(?P<minutes>[0-9]+):(?P<seconds>[0-9]{1,2})"),
    re.compile(r"(?P<hours>[0-9]+):(?P<minutes>[0-9]{1,2}):(?P<seconds>[0-9]{1,2})"),
    re.compile(
        r"(?P<days>[0-9]+)-(?P<hours>[0-9]{1,2})(:(?P<minutes>[0-9]{1,2})(:(?P<seconds>[0-9]{1,2}))?)?"
    ),
)
_SECONDS: Final = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
_LEAST_WARNING_S: Final = 10
_OURS: Final = frozenset(
    {
        *("--array", "--chdir", "--cluster-constraint", "--clusters", "--error", "--export", "--export-file"),
        *("--get-user-env", "--hold", "--input", "--job-name", "--nodes", "--no-requeue", "--ntasks"),
        *("--open-mode", "--output", "--parsable", "--quiet", "--requeue", "--signal", "--test-only"),
        *("--usage", "--help", "--version", "--wait", "--wrap"),
    }
)


class Shape(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an allocation has. What is not said is left to the template and the site.

    Raises:
        ShapeRefused: a value is not one that SLURM would take, or that we can use.
    """

    partition: str | None = None
    gres: str | None = None
    cpus: int | None = None
    memory: str | None = None
    time: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    modules: tuple[str, ...] = ()
    nodes: int = 1
    extra: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_nodes(self.nodes)
        if self.cpus is not None and self.cpus < 1:
            raise ShapeRefused(f"{self.cpus} cpus are too few", hint="Ask for 1 at least")
        for field in ("partition", "account", "qos"):
            _check(field, getattr(self, field), _NAME, "a name as `sinfo` or your site gives it")
        _check(
            "constraint", self.constraint, _CONSTRAINT, "features as `sinfo -o %f` lists them: `a100&nvlink`"
        )
        _check("gres", self.gres, _GRES, "as in `gpu:1` or `gpu:a100:2`")
        _check("mem", self.memory, _MEMORY, "a number with K, M, G or T, as in `32G`; without one it is MB")
        seconds_of(self.time)
        for module in self.modules:
            _check("module", module, _MODULE, "a name as `module avail` lists it")
            if ".." in module:
                raise ShapeRefused(
                    f"module {module!r} leads elsewhere", hint="Name it as `module avail` does"
                )
        _check_extra(self.extra)


def shape_arguments(shape: Shape) -> list[str]:
    """A shape for ``sbatch``. Modules are for the script."""
    said = {
        "partition": shape.partition,
        "gres": shape.gres,
        "cpus-per-task": shape.cpus,
        "mem": shape.memory and shape.memory.upper().removesuffix("B"),
        "time": shape.time,
        "account": shape.account,
        "qos": shape.qos,
        "constraint": shape.constraint,
    }
    return [*(f"--{name}={value}" for name, value in said.items() if value is not None), *shape.extra]


def memory_bytes(memory: str | None) -> int | None:
    """Memory as a shape says it, in bytes; None where it is the site's."""
    if memory is None or (match := _MEMORY.fullmatch(memory)) is None:
        return None
    power = " KMGT".index(match[2].upper()) if match[2] else 2
    return int(match[1]) << (10 * power)


def seconds_of(time: str | None) -> int | None:
    """A time limit in seconds; None where it is the site's, or none at all.

    Raises:
        ShapeRefused: it is not written as SLURM writes times.
    """
    if time is None or time.upper() in ("UNLIMITED", "INFINITE"):
        return None
    for pattern in _TIMES:
        if (match := pattern.fullmatch(time)) is not None:
            parts = match.groupdict(default="0")
            total = sum(int(value) * _SECONDS[unit] for unit, value in parts.items())
            if total > 0:
                return total
    raise ShapeRefused(
        f"time {time!r} is no time limit",
        hint="Write minutes, `hours:minutes:seconds` or `days-hours:minutes:seconds`, as in `4:00:00`",
    )


def warning_s(wanted_s: int, time: str | None) -> int:
    """How long before its end an allocation is warned: as wanted, but at most in the last quarter of a short one."""
    total = seconds_of(time)
    if total is None:
        return wanted_s
    # SLURM counts time limits in whole minutes, upwards.
    return max(_LEAST_WARNING_S, min(wanted_s, math.ceil(total / 60) * 60 // 4))


def _check_nodes(nodes: int) -> None:
    if nodes != 1:
        raise ShapeRefused(
            f"An allocation of ours is on 1 node, not {nodes}: each has one host, whose kernels share its node",
            hint="Start more allocations instead, each with a --name of its own",
        )


def _check(field: str, value: str | None, pattern: re.Pattern[str], how: str) -> None:
    if value is not None and pattern.fullmatch(value) is None:
        raise ShapeRefused(f"{field} {value!r} cannot be asked for", hint=f"Write {how}")


def _check_extra(extra: Iterable[str]) -> None:
    for argument in extra:
        if _EXTRA.fullmatch(argument) is None:
            raise ShapeRefused(
                f"{argument!r} is no long option of sbatch", hint="Write slurm_extra as `--name=value`"
            )
        name = argument.partition("=")[0]
        if name in _OURS:
            raise ShapeRefused(f"{name} is set by Cellwright itself", hint="Take it out of slurm_extra")
