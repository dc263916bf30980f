"""Builds what a confined process sees of the machine, and changes it once more when its session is known.

Follows a plan to the letter; what stands in a plan is decided by ``cellwright.sandbox``.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cellwright_kernel import mounts
from cellwright_kernel.syscalls import libc, unmount

__all__ = ["GATE", "Box", "build"]

GATE = "/.gate"
"""The directory through which a session's places are mounted when Landlock's rules are already set."""

STAGE = "/.stage"
CLONE_NEWNS = 0x00020000
ROOT_BYTES, ROOT_INODES = 4 << 20, 4096
DEVICES = ("null", "zero", "full", "random", "urandom")
STREAMS = ("stdin", "stdout", "stderr")


@dataclass(frozen=True)
class Box:
    """A root under construction, at a path of the builder's own mount namespace."""

    root: str
    owner: tuple[int, int]
    offer: mounts.Offer

    def furnish(self, entries: list[dict[str, Any]]) -> None:
        """Mount what the entries say, each below the root."""
        for entry in entries:
            mount = self._make(entry)
            mount.at = self.root + mount.at
            mounts.make_place(mount.at, directory=mount.directory)
            mounts.attach(mount)

    def refurnish(
        self, namespace: int, entries: list[dict[str, Any]], dropped: list[str], first: Sequence[str] = ()
    ) -> None:
        """Mount and unmount in the mount namespace that grew from this root, then come back.

        ``first`` is unmounted before anything else: what is mounted takes its place.
        """
        made = [self._make(entry) for entry in entries]
        gate = next((entry["at"] for entry in entries if entry["kind"] == "gate"), None)
        for mount in made:
            mounts.make_place(self._place_of(mount.at, gate), directory=mount.directory)
        home = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _enter(namespace)
            for path in first:
                unmount(path)
            for mount in made:
                mounts.attach(mount)
            for path in dropped:
                unmount(path)
        finally:
            _enter(home)
            os.close(home)

    def _make(self, entry: dict[str, Any]) -> mounts.Mount:
        return mounts.make(
            entry, gate=self.root + GATE, stage=self.root + STAGE, owner=self.owner, offer=self.offer
        )

    def _place_of(self, at: str, gate: str | None) -> str:
        if gate is not None and at.startswith(f"{gate}/"):
            return self.root + GATE + at[len(gate) :]
        return self.root + at


def build(root: str, plan: dict[str, Any], owner: tuple[int, int], offer: mounts.Offer) -> Box:
    """Make the root: the system read-only, the interpreter, devices, and the few files that programs expect."""
    os.makedirs(root, exist_ok=True)  # noqa: PTH103  # a string throughout: paths are joined to roots here
    mounts.attach(mounts.Mount(mounts.make_tmpfs(ROOT_BYTES, ROOT_INODES, owner=None), root))
    box = Box(root, owner, offer)
    for target, link in plan["links"]:
        os.symlink(target, root + link)  # noqa: PTH211
    for path, content in plan["files"].items():
        mounts.make_place(root + path, directory=False)
        with open(root + path, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(content.format(uid=owner[0], gid=owner[1]))
    for directory in ("/proc", "/dev", GATE):
        os.mkdir(root + directory, 0o755)  # noqa: PTH102
    devices = [
        {"kind": "bind", "from": f"/dev/{name}", "at": f"/dev/{name}", "write": True, "device": True}
        for name in DEVICES
    ]
    box.furnish(devices)
    for number, name in enumerate(STREAMS):
        os.symlink(f"/proc/self/fd/{number}", f"{root}/dev/{name}")  # noqa: PTH211
    os.symlink("/proc/self/fd", f"{root}/dev/fd")  # noqa: PTH211
    box.furnish(plan["mounts"])
    return box


def _enter(namespace: int) -> None:
    if libc.setns(namespace, CLONE_NEWNS) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"setns: {os.strerror(code)}")
