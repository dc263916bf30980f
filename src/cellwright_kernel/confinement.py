"""Takes the network, other files and memory beyond a limit from a process that is about to read other people's data.

For processes of ours that parse or draw (``charts.worker``, ``tools.files.reader``, ``tools.web.body_reader``,
``agent.models.localworker``); what users' code may do is ``cellwright.sandbox``'s.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from cellwright_kernel import _namespaces, _seccomp, landlock

__all__ = ["confine"]

# Everything that libraries and fonts may lie in; what is not there is left out.
_READ = (
    "/usr",
    "/lib",
    "/lib64",
    "/opt",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/proc/self",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",  # DuckDB does not start where it cannot look there
    "/dev/urandom",
)
_HOME_FONTS = ("~/.fonts", "~/.local/share/fonts")


def confine(
    memory_bytes: int, *, files: Sequence[str] = (), programs: Sequence[str] = (), sockets: Sequence[str] = ()
) -> bool:
    """Close what can be closed on this machine; ``files`` are plain files that may be opened to read.

    The files ``programs`` may be run, too. In the directories ``sockets`` unix sockets may be made, and nothing else.

    False where an old kernel leaves it to whatever the libraries themselves refuse.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    homes = [str(Path(path).expanduser()) for path in _HOME_FONTS]
    own = [str(Path(__file__).parents[1]), sys.prefix, sys.base_prefix, *sys.path]
    rules = [(path, landlock.READ) for path in (*_READ, *homes, *own) if path]
    rules += [(path, landlock.READ_FILE) for path in files]
    rules += [(path, landlock.READ_FILE | landlock.EXECUTE) for path in programs]
    rules += [(path, landlock.SOCKETS) for path in sockets]
    rules.append(("/dev/null", landlock.WRITE_FILE))
    try:
        _namespaces.no_new_privileges()
        landlock.restrict(rules, tcp=False)
        _seccomp.install(local_network=False)
    except OSError:
        return False
    return True
