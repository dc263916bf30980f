"""How a language runs: kernels started, spoken to and ended. Orders no cells and keeps no history (see hosts).

``forkserver``, ``kernelspecs`` and ``deno`` start kernels; a ``kernel`` is a process (``processes``) and a connection to
it (``client``, ``pipe_client``). Code that runs inside the kernel's process is the package ``cellwright_kernel``.
"""

from cellwright.kernels._checkpoint_group import CheckpointGroup
from cellwright.kernels._checkpoints import Frozen
from cellwright.kernels._confinement import Isolation
from cellwright.kernels._forkserver import ForkServer
from cellwright.kernels._interpreters import (
    Interpreter,
    LibraryCaches,
    find_project_python,
    prepare_interpreter,
)
from cellwright.kernels._kernelspecs import KernelspecLauncher
from cellwright.kernels._monitor import MonitorChannel
from cellwright.kernels.client import Message
from cellwright.kernels.deno import DenoLauncher, find_deno
from cellwright.kernels.kernel import Kernel, KernelLaunch, Launcher, OutputLimits
from cellwright.kernels.processes import Exit, QuickCount, adopt_orphans, reap_strangers
from cellwright.kernels.programs import LOCAL_PROGRAMS, Programs
from cellwright.kernels.typecheck import TypeChecker

__all__ = [
    "LOCAL_PROGRAMS",
    "CheckpointGroup",
    "DenoLauncher",
    "Exit",
    "ForkServer",
    "Frozen",
    "Interpreter",
    "Isolation",
    "Kernel",
    "KernelLaunch",
    "KernelspecLauncher",
    "Launcher",
    "LibraryCaches",
    "Message",
    "MonitorChannel",
    "OutputLimits",
    "Programs",
    "QuickCount",
    "TypeChecker",
    "adopt_orphans",
    "find_deno",
    "find_project_python",
    "prepare_interpreter",
    "reap_strangers",
]
