"""Which GPUs the code of sessions may use: the devices to show in a sandbox, and what their libraries read beside them.

Looks at device files, ``/proc`` and ``/sys`` below a root directory, and at what SLURM or the user chose in variables;
opens no device. How devices are shown is ``policy``' and the kernel package's.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["NO_GPUS", "GpuMemory", "Gpus", "find_gpus", "gpu_memory", "show_gpus"]

_DRIVER_S = 10.0

_NVIDIA = re.compile(r"nvidia(\d+)")
_NVIDIA_SHARED = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
_NVIDIA_CAPABILITIES = "nvidia-caps"
_RENDER = re.compile(r"renderD(\d+)")
_AMD, _INTEL = "0x1002", "0x8086"

# What SLURM numbers as the machine does, and what is numbered as the libraries of each vendor see it.
_OF_STEP = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
_VISIBLE = {
    "nvidia": ("CUDA_VISIBLE_DEVICES",),
    _AMD: ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
    _INTEL: ("ZE_AFFINITY_MASK",),
}

# Facts about processors, memory and devices that drivers' libraries look at, and libraries outside of /usr.
_FACTS = (
    *(f"/sys/devices/system/{name}" for name in ("cpu", "memory", "node")),
    *("/sys/bus/pci/devices", "/sys/class/drm", "/sys/class/kfd", "/sys/devices/virtual/kfd"),
    *("/sys/module/nvidia", "/sys/module/nvidia_uvm", "/sys/module/amdgpu"),
)
_LIBRARIES = ("/opt/rocm", "/opt/intel/oneapi", "/run/opengl-driver", "/etc/OpenCL", "/etc/vulkan")


@dataclass(frozen=True, slots=True)
class Gpus:
    """Devices that code may use. Falsy where there are none."""

    devices: tuple[tuple[str, str], ...] = ()
    """Each device file of this machine, with the path at which code sees it."""
    readable: tuple[tuple[str, str], ...] = ()
    """What is to be read beside them: each path of this machine, with the one at which code sees it."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables that count devices as code sees them."""
    names: tuple[str, ...] = ()
    """The GPUs among the devices, without the files that all share."""

    def __bool__(self) -> bool:
        return bool(self.devices)


NO_GPUS = Gpus()


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """One GPU as its driver reports it."""

    device: str
    name: str
    """Empty where the driver does not report it."""
    used_mib: int
    total_mib: int

    def __str__(self) -> str:
        use = f"{self.used_mib:,} MiB of {self.total_mib:,} MiB in use"
        return f"{self.name}, {use}" if self.name else use


def find_gpus(choice: str, environment: Mapping[str, str], *, root: str = "/") -> Gpus:
    """The GPUs that ``choice`` (``auto``, ``off`` or numbers such as ``0,2``) and the variables of a job leave.

    ``root`` is where ``/dev``, ``/proc`` and ``/sys`` are looked for.
    """
    if choice == "off":
        return NO_GPUS
    numbers = None if choice == "auto" else [int(word) for word in choice.split(",")]
    look = _Look(Path(root), numbers, environment)
    found = [look.nvidia(), *(look.rendering(vendor) for vendor in (_AMD, _INTEL))]
    devices = [path for one in found for path in one.devices]
    if not devices:
        return NO_GPUS
    facts = [path for path in (*_FACTS, *_LIBRARIES) if os.path.exists(look.on_disk(path))]
    facts += [path for one in found for path in one.facts]
    return Gpus(
        tuple((look.on_disk(path), path) for path in devices),
        readable=tuple((os.path.realpath(look.on_disk(path)), path) for path in dict.fromkeys(facts)),
        environment=tuple(pair for one in found for pair in one.environment),
        names=tuple(name for one in found for name in one.names),
    )


def gpu_memory(gpus: Gpus, *, root: str = "/") -> dict[str, GpuMemory]:
    """Each GPU with its memory in use, by its device, as the drivers report it; GPUs of which a driver reports nothing are left out.

    Starts NVIDIA's own program where it is installed. Blocking.
    """
    found: dict[str, GpuMemory] = {}
    numbers = [name for name in gpus.names if _NVIDIA.fullmatch(Path(name).name)]
    if numbers and (program := shutil.which("nvidia-smi")) is not None:
        for line in _said_by(
            [program, "--query-gpu=index,name,memory.used,memory.total", "--format=csv,noheader,nounits"]
        ):
            number, *name, in_use, of_all = line.split(", ")
            if (device := f"/dev/nvidia{number}") in numbers and in_use.isdecimal() and of_all.isdecimal():
                found[device] = GpuMemory(device, ", ".join(name), int(in_use), int(of_all))
    for device in gpus.names:
        about = Path(root, "sys/class/drm", Path(device).name, "device")
        try:
            used, total = (
                int((about / f"mem_info_vram_{one}").read_text()) >> 20 for one in ("used", "total")
            )
        except (OSError, ValueError):
            continue
        found[device] = GpuMemory(device, "", used, total)
    return found


def _said_by(command: list[str]) -> list[str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DRIVER_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.splitlines()


def show_gpus(plan: dict[str, Any], gpus: Gpus) -> dict[str, Any]:
    """A plan with devices in it, in the sandbox's own ``/dev``.

    Without namespaces there are none: CUDA wants a socket there that the sandbox refuses.
    """
    if not gpus or not plan["namespaces"]:
        return plan
    shown = [pair for pair in gpus.readable if pair[1] not in plan["rules"]["READ"]]
    plan["mounts"] += [
        {"kind": "bind", "from": source, "at": at, "write": True, "device": True}
        for source, at in gpus.devices
    ]
    plan["mounts"] += [{"kind": "bind", "from": source, "at": at, "write": False} for source, at in shown]
    plan["rules"]["DEVICE"] = [at for _, at in gpus.devices]
    plan["rules"]["READ"] += [at for _, at in shown]
    # CUDA names its threads, and gives up where it may not.
    plan["rules"]["REWRITE"] = ["/proc"]
    plan["environment"] = dict(plan["environment"]) | dict(gpus.environment)
    # A driver's library shares pages with its device that are in no file.
    plan["shares_memory"] = True
    return plan


@dataclass(frozen=True, slots=True)
class _Found:
    devices: Sequence[str] = ()
    names: Sequence[str] = ()
    facts: Sequence[str] = ()
    environment: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at a machine."""

    root: Path
    numbers: Sequence[int] | None
    """What the setting names; None is all."""
    environment: Mapping[str, str]

    def on_disk(self, path: str) -> str:
        return str(self.root / path.lstrip("/"))

    def nvidia(self) -> _Found:
        own = self._numbered("/dev", _NVIDIA)
        chosen = self._chosen("nvidia", list(own))
        names = [own[number] for number in chosen]
        if not names:
            return _Found()
        devices = [*names, *self._usable(f"/dev/{name}" for name in _NVIDIA_SHARED)]
        value = self.environment.get("CUDA_VISIBLE_DEVICES", "")
        if len(chosen) == len(own) or "MIG-" in value:
            folder = f"/dev/{_NVIDIA_CAPABILITIES}"
            devices += self._usable((f"{folder}/{name}" for name in self._listed(folder)), mode=os.R_OK)
        counted = self._renumbered("CUDA_VISIBLE_DEVICES", value, len(chosen), len(own))
        return _Found(devices, names, self._pci(chosen), counted)

    def rendering(self, vendor: str) -> _Found:
        """The render nodes of a vendor, which its drivers number from 0 in the order of their names."""
        nodes = [
            path
            for _, path in sorted(self._numbered("/dev/dri", _RENDER).items())
            if self._is_of(vendor, path)
        ]
        chosen = self._chosen(vendor, list(range(len(nodes))))
        names = [nodes[number] for number in chosen]
        if not names:
            return _Found()
        variable = _VISIBLE[vendor][0]
        counted = self._renumbered(variable, self.environment.get(variable, ""), len(chosen), len(nodes))
        shared = self._usable(["/dev/kfd"]) if vendor == _AMD else []
        facts = self._real(f"/sys/class/drm/{Path(path).name}/device" for path in names)
        return _Found([*shared, *names], names, facts, counted)

    # What was chosen ---------------------------------------------------------------------------------------------

    def _chosen(self, vendor: str, there: Sequence[int]) -> list[int]:
        """Which of the devices that there are: those that the setting, the step and the user's own variable leave."""
        named = self._named(vendor, there)
        wanted = self.numbers if self.numbers is not None else there
        in_job = "SLURM_JOB_ID" in self.environment
        if named is None:
            # A job that was given none has none, unless the setting says which.
            return [] if in_job and self.numbers is None else [one for one in there if one in wanted]
        return [one for one in there if one in wanted and one in named]

    def _named(self, vendor: str, there: Sequence[int]) -> Sequence[int] | None:
        """The devices that variables name; None where they say nothing."""
        visible = next(
            (self.environment[name] for name in _VISIBLE[vendor] if name in self.environment), None
        )
        if visible is not None and "MIG-" in visible:
            return there
        for name in _OF_STEP:
            if (numbers := _numbers(self.environment.get(name, ""))) is not None:
                return numbers
        if visible is None:
            return None
        numbers = _numbers(visible)
        if numbers is None:
            return self._by_uuid(visible)
        # In a job they are numbered among those that can be opened.
        in_job = "SLURM_JOB_ID" in self.environment
        return there if in_job and len(numbers) == len(there) else numbers

    def _by_uuid(self, value: str) -> list[int]:
        wanted = [word.strip() for word in value.split(",") if word.strip()]
        return [
            number
            for number, about in self._told().values()
            if any(about.startswith(word) for word in wanted)
        ]

    def _renumbered(self, variable: str, value: str, chosen: int, there: int) -> list[tuple[str, str]]:
        """The variable as it must be where fewer devices are seen than the machine has."""
        if value and _numbers(value) is None:
            return [(variable, value)]
        in_step = any(name in self.environment for name in (*_OF_STEP, variable))
        return [(variable, ",".join(map(str, range(chosen))))] if chosen < there or in_step else []

    # What there is -----------------------------------------------------------------------------------------------

    def _numbered(self, folder: str, pattern: re.Pattern[str]) -> dict[int, str]:
        found = {int(match[1]): name for name in self._listed(folder) if (match := pattern.fullmatch(name))}
        paths = {number: f"{folder}/{name}" for number, name in sorted(found.items())}
        usable = set(self._usable(paths.values()))
        return {number: path for number, path in paths.items() if path in usable}

    def _usable(self, paths: Iterable[str], *, mode: int = os.R_OK | os.W_OK) -> list[str]:
        return [path for path in paths if self._is_usable(path, mode)]

    def _is_usable(self, path: str, mode: int) -> bool:
        on_disk = self.on_disk(path)
        try:
            # Asks the group of devices that the job is in, too.
            return stat.S_ISCHR(os.stat(on_disk).st_mode) and os.access(on_disk, mode)
        except OSError:
            return False

    def _listed(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self.on_disk(folder)))
        except OSError:
            return []

    def _told(self) -> dict[str, tuple[int, str]]:
        """Each GPU's number and UUID by its place on the bus, as NVIDIA's driver reports them."""
        found = {}
        for place in self._listed("/proc/driver/nvidia/gpus"):
            about = self._read(f"/proc/driver/nvidia/gpus/{place}/information")
            parts = (line.partition(":") for line in about.splitlines())
            fields = {name.strip(): value.strip() for name, _, value in parts}
            if fields.get("Device Minor", "").isdecimal():
                found[place] = (int(fields["Device Minor"]), fields.get("GPU UUID", ""))
        return found

    def _pci(self, chosen: Sequence[int]) -> list[str]:
        places = [place for place, (number, _) in self._told().items() if number in chosen]
        return self._real(f"/sys/bus/pci/devices/{place.lower()}" for place in places)

    def _real(self, paths: Iterable[str]) -> list[str]:
        """The directories behind links, as they are called below the root."""
        root = os.path.realpath(self.root)
        found = (os.path.realpath(self.on_disk(path)) for path in paths)
        return [f"/{os.path.relpath(path, root)}" for path in found if os.path.isdir(path)]

    def _is_of(self, vendor: str, path: str) -> bool:
        return self._read(f"/sys/class/drm/{Path(path).name}/device/vendor").strip() == vendor

    def _read(self, path: str) -> str:
        try:
            return Path(self.on_disk(path)).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""


def _numbers(value: str) -> list[int] | None:
    """The numbers of ``0,2-3``; none of ``-1``, and None where it is something else, or nothing.

    Such as ``NoDevFiles``, by which older releases of SLURM say that there are none.
    """
    if value.strip() in ("-1", "NoDevFiles"):
        return []
    found: list[int] = []
    for word in filter(None, value.replace(" ", "").split(",")):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
        if match is None:
            return None
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return found or None
