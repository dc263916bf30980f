"""Whether a live kernel may be forked, and what of it a fork does not carry. Looks; forks nothing (see ``_checkpoints``).

A fork copies one thread. Whatever another thread held or was about to do is lost in the copy, so a kernel in which
code of the session's goes on elsewhere is not forked at all: the reason is told instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

__all__ = [
    "OwnThreads",
    "file_maps",
    "map_anew",
    "other_maps_in_words",
    "shared_maps",
    "stamp_written",
    "threads_to_lose",
    "timers_in_words",
    "why_unsafe",
]

OPENBLAS_COUNTS = tuple(
    f"{prefix}openblas_get_num_threads{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", "_64", "")
)

OMP_PAUSE_SOFT = 1

# Threads of a pool that was let go end a moment later. Counted in looks: where the machine stands still they do not end.
POOL_LOOKS = 100

POOL_CHECK_S = 0.001

# jemalloc's, which pyarrow brings and pandas loads: it only gives memory back, is stopped over a fork by jemalloc itself,
# and is not missed in the copy.
HARMLESS_THREADS = frozenset({"jemalloc_bg_thd"})

OWN_PACKAGES = ("ipykernel", "tornado", "zmq", "cellwright_kernel", "jupyter_client")

GPU_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/render")

MOST_NAMED = 5


@dataclass
class OwnThreads:
    """The threads that the kernel itself consists of, noted before any code of the session ran."""

    tasks: frozenset[str]
    idents: frozenset[int | None]

    @classmethod
    def now(cls) -> OwnThreads:
        """Those that there are now."""
        return cls(frozenset(threads_to_lose()), frozenset(thread.ident for thread in threading.enumerate()))


def threads_to_lose() -> list[str]:
    """The threads of this process, by number, but for those that a fork may do without."""
    return [task for task in os.listdir("/proc/self/task") if _task_name(task) not in HARMLESS_THREADS]


def why_unsafe(own: OwnThreads) -> str | None:
    """Why this process must not be forked now, in words; None where it may be."""
    return _threads(own) or _running_tasks() or _gpu()


def timers_in_words() -> list[str]:
    """What was to happen later by itself, and does not in a copy."""
    kinds = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
    told = (
        ["the system's timer (signal.setitimer)"] if any(signal.getitimer(kind)[0] for kind in kinds) else []
    )
    with contextlib.suppress(RuntimeError):
        loop: Any = asyncio.get_running_loop()
        scheduled = getattr(loop, "_scheduled", ())
        calls = [one._callback for one in scheduled if not one.cancelled()]  # noqa: SLF001  # there is no other way
        strange = [call for call in calls if not _module_of(call).startswith(OWN_PACKAGES)]
        names = [getattr(call, "__qualname__", type(call).__name__) for call in strange]
        told += [f"what asyncio was to call later: {_named(names)}"] if names else []
    return told


def _module_of(call: Any) -> str:
    return str(getattr(call, "__module__", None) or "")


def _threads(own: OwnThreads) -> str | None:
    strange = [task for task in threads_to_lose() if task not in own.tasks]
    if not strange:
        return None
    python = [thread.name for thread in threading.enumerate() if thread.ident not in own.idents]
    if python:
        return (
            f"{_counted(python, 'thread')} still running: {_named(python)}; wait for {_them(python)} to end"
        )
    strange = _without_pools(own)
    if not strange:
        return None
    names = [name for task in strange if (name := _task_name(task))]
    return (
        f"{_counted(strange, 'native thread', 'of a library')} running ({_named(sorted(set(names)))}); "
        "close its connections or let it work with one thread"
    )


def _without_pools(own: OwnThreads) -> list[str]:
    """Threads that are neither ours nor idle helpers of a library that knows how to be forked."""
    libraries = _loaded_libraries()
    for path in libraries:
        if "gomp" in path:
            # It would wait for threads that the copy does not have. Let go of, they are started again on need.
            _call(path, "omp_pause_resource_all", OMP_PAUSE_SOFT)
    # OpenBLAS ends its threads before a fork and starts them again after it.
    allowed = sum(max(0, _blas_threads(path) - 1) for path in libraries if "openblas" in path)
    rest: list[str] = []
    for _ in range(POOL_LOOKS):
        strange = [task for task in threads_to_lose() if task not in own.tasks]
        own_name = _task_name(str(os.getpid()))
        alike = [task for task in strange if _task_name(task) == own_name]
        rest = [task for task in strange if task not in alike] + alike[allowed:]
        if not rest:
            break
        time.sleep(POOL_CHECK_S)
    return rest


def _running_tasks() -> str | None:
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        return None
    strange = [task for task in tasks if not task.done() and not _is_own(task)]
    if not strange:
        return None
    names = [getattr(task.get_coro(), "__qualname__", task.get_name()) for task in strange]
    return f"{_counted(strange, 'asyncio task')} still running: {_named(names)}; await or cancel {_them(strange)}"


def _is_own(task: asyncio.Task[Any]) -> bool:
    coroutine: Any = task.get_coro()
    code = getattr(coroutine, "cr_code", None) or getattr(coroutine, "gi_code", None)
    path = getattr(code, "co_filename", "")
    return task is asyncio.current_task() or any(f"/{package}/" in path for package in OWN_PACKAGES)


def _gpu() -> str | None:
    torch = sys.modules.get("torch")
    if torch is not None:
        with contextlib.suppress(Exception):
            if torch.cuda.is_initialized():
                return "a CUDA context is initialised, and no fork can use it"
    for fd in os.listdir("/proc/self/fd"):  # names only
        with contextlib.suppress(OSError):
            device = os.readlink(f"/proc/self/fd/{fd}")
            if device.startswith(GPU_DEVICES):
                return f"a GPU is in use ({device}), and no fork can share it"
    return None


def _task_name(task: str) -> str:
    with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/comm", encoding="utf-8") as file:
        return file.read().strip()
    return ""


def _loaded_libraries() -> list[str]:
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        return sorted(set(re.findall(r"/\S*(?:openblas|gomp)\S*\.so\S*", file.read())))


def _blas_threads(path: str) -> int:
    return next((count for name in OPENBLAS_COUNTS if (count := _call(path, name)) is not None), 1)


def _call(path: str, function: str, *arguments: int) -> int | None:
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        result: int = getattr(library, function)(*arguments)
    except (OSError, AttributeError):
        return None
    return result


def _counted(things: Iterable[object], noun: str, whose: str = "") -> str:
    count = len(list(things))
    what = f"{noun}s" if count > 1 else noun
    return f"{count} {what}{f' {whose}' if whose else ''} {'are' if count > 1 else 'is'}"


def _them(things: list[Any]) -> str:
    return "them" if len(things) > 1 else "it"


def _named(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


# Memory that is shared: maps of files, which a forked kernel makes anew from what lies there then, and all
# other kinds.

MAP_SHARED, MAP_FIXED = 0x01, 0x10

PROTECTION = {"r": 1, "w": 2, "x": 4}

DELETED = " (deleted)"

# None of these is a file that could be opened again.
NO_FILES = ("/dev/", "/memfd:", "/SYSV", "anon_inode:")

ANONYMOUS = "/dev/zero"

FIELDS = 6


@dataclass(frozen=True)
class Map:
    """A piece of memory that is shared with whoever else maps the same."""

    start: int
    length: int
    access: str
    """As the system writes it: ``rw-``."""
    offset: int
    path: str
    size: int
    """How long the file was: beyond its end the memory must not be touched."""


def shared_maps() -> list[Map]:
    """All that this process has now."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        return [_parsed(line) for line in file if line.split(maxsplit=2)[1].endswith("s")]


def file_maps(maps: Iterable[Map]) -> list[Map]:
    """Those of files that have a name."""
    return [one for one in maps if one.path.startswith("/") and not _is_nameless(one)]


def other_maps_in_words(maps: Iterable[Map]) -> list[str]:
    """Those that stay shared with the origin, whatever becomes of it."""
    names = [one.path.removesuffix(DELETED) for one in maps if _is_nameless(one)]
    told = ["anonymous shared memory" if name == ANONYMOUS else f"the shared memory {name}" for name in names]
    return list(dict.fromkeys(told))


def map_anew(maps: Collection[Map]) -> list[str]:
    """Let each map show the file that now has its name; tells those that could not be."""
    failed: list[str] = []
    for one in maps:
        try:
            _map_one_anew(one)
        except OSError:
            failed.append(f"the memory map of {one.path}")
    return failed


def stamp_written() -> None:
    """Let files that are mapped to be written look changed: writing to memory alone is not noted on every file system."""
    if "mmap" not in sys.modules:
        return
    for path in {one.path for one in file_maps(shared_maps()) if "w" in one.access}:
        with contextlib.suppress(OSError):
            os.utime(path)


def _parsed(line: str) -> Map:
    where, access, offset, _, _, *rest = line.rstrip("\n").split(maxsplit=FIELDS - 1)
    begin, end = (int(edge, 16) for edge in where.split("-"))
    path, size = rest[0] if rest else "", 0
    with contextlib.suppress(OSError):
        size = os.stat(path).st_size
    return Map(begin, end - begin, access[:3], int(offset, 16), path, size)


def _is_nameless(one: Map) -> bool:
    return one.path.startswith(NO_FILES) or one.path.endswith(DELETED)


def _map_one_anew(one: Map) -> None:
    file = os.open(one.path, (os.O_RDWR if "w" in one.access else os.O_RDONLY) | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        if os.fstat(file).st_size < one.size:
            raise OSError("it is shorter than it was")
        protection = sum(PROTECTION.get(letter, 0) for letter in one.access)
        mmap = ctypes.CDLL(None, use_errno=True).mmap
        mmap.restype = ctypes.c_void_p
        mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        found = mmap(one.start, one.length, protection, MAP_SHARED | MAP_FIXED, file, one.offset)
        if found != one.start:
            raise OSError(ctypes.get_errno(), "it cannot be mapped")
    finally:
        os.close(file)
