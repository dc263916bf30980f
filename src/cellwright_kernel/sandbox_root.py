"""Builds what a confined process sees of the machine, and changes it once more when its session is known.

Follows a plan to the letter; what stands in a plan is decided by ``cellwright.sandbox``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cellwright_kernel import mounts, namespaces
from cellwright_kernel.syscalls import unmount

__all__ = ["BELOW", "GATE", "SandboxRoot", "build"]

GATE = "/.gate"
"""The directory through which a session's places are mounted when Landlock's rules are already set."""

BELOW = "/.below"
"""The root of every sandbox below this one; in it, what is mounted in ``WRITABLE`` can be written."""

WRITABLE = "/.w"
TEMPORARY = "/tmp"
STAGE = "/.stage"
ROOT_BYTES, ROOT_INODES = 4 << 20, 4096
# What is mapped of /dev/zero is memory of nobody's; what is read of /dev/full is zeros too, and cannot be mapped.
DEVICES = {"null": "null", "zero": "full", "full": "full", "random": "random", "urandom": "urandom"}
STREAMS = ("stdin", "stdout", "stderr")


@dataclass(frozen=True)
class SandboxRoot:
    """A root under construction, at a path of the builder's own mount namespace."""

    root: str
    owner: tuple[int, int]
    offer: mounts.Offer
    sockets: str
    """Where the first kernel made its sockets, which is nobody else's business."""

    def furnish(self, entries: list[dict[str, Any]]) -> None:
        """Mount what the entries say, each below the root."""
        for entry in entries:
            mount = self._make(entry)
            mount.at = self.root + mount.at
            mounts.make_mount_point(mount.at, directory=mount.directory)
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
            mounts.make_mount_point(self._place_of(mount.at, gate), directory=mount.directory)
        with _inside(namespace):
            for path in first:
                unmount(path)
            for mount in made:
                mounts.attach(mount)
            for path in dropped:
                unmount(path)

    def share(self, namespace: int, path: str) -> int:
        """What is mounted at a path in the mount namespace that grew from this root, for another sandbox to mount."""
        with _inside(namespace):
            return mounts.copy_tree(path, read_only=False)

    def furnish_below(
        self, namespace: int, proc: int, private: list[dict[str, Any]], entries: list[dict[str, Any]]
    ) -> None:
        """Give a new mount namespace a root like this one, but without what was mounted for a session."""
        self._prepare_places(entries)
        trees = [*self._trees(), mounts.Mount(proc, "/proc")]
        for tree in trees:
            mounts.make_mount_point(self.root + BELOW + tree.at, directory=True)
        # A rule of Landlock holds for an inode, or for what is mounted in a directory that has one: a new file system
        # at /tmp itself would be writable to nobody.
        made = [self._make(entry) for entry in (*private, *entries)]
        for mount in made:
            if mount.at == TEMPORARY:
                mount.at = WRITABLE + TEMPORARY
                mounts.make_mount_point(self.root + BELOW + mount.at, directory=True)
        root = mounts.Mount(mounts.copy_tree(self.root + BELOW, read_only=True), "/")
        with _inside(namespace):
            mounts.attach(root)
        # Whoever enters from here on is in the new root.
        with _inside(namespace):
            for mount in (*trees, *made):
                mounts.make_mount_point(mount.at, directory=mount.directory)
                mounts.attach(mount)

    def _prepare_places(self, entries: list[dict[str, Any]]) -> None:
        gate = next((entry["at"] for entry in entries if entry["kind"] == "gate"), None)
        for entry in entries:
            if not entry["at"].startswith(f"{TEMPORARY}/"):
                is_file = entry["kind"] == "bind" and not os.path.isdir(entry["from"])
                mounts.make_mount_point(self._place_of(entry["at"], gate), directory=not is_file)

    def _trees(self) -> list[mounts.Mount]:
        """What stands in this root, each thing to be mounted in another."""
        trees: list[mounts.Mount] = []
        for entry in os.scandir(self.root):
            if entry.is_symlink():
                # It is the same for all, and another may be at it at the same time.
                with contextlib.suppress(FileExistsError):
                    os.symlink(os.readlink(entry.path), f"{self.root}{BELOW}/{entry.name}")
            elif f"/{entry.name}" not in {BELOW, GATE, STAGE, TEMPORARY, "/proc", self.sockets}:
                # A directory of the root itself may be written here, by us.
                own = entry.stat().st_dev == os.stat(self.root).st_dev
                trees.append(mounts.Mount(mounts.copy_tree(entry.path, read_only=own), f"/{entry.name}"))
        return trees

    def _make(self, entry: dict[str, Any]) -> mounts.Mount:
        return mounts.make(
            entry, gate=self.root + GATE, stage=self.root + STAGE, owner=self.owner, offer=self.offer
        )

    def _place_of(self, at: str, gate: str | None) -> str:
        if gate is not None and at.startswith(f"{gate}/"):
            return self.root + GATE + at[len(gate) :]
        return self.root + at


def build(root: str, plan: dict[str, Any], owner: tuple[int, int], offer: mounts.Offer) -> SandboxRoot:
    """Make the root: the system read-only, the interpreter, devices, and the few files that programs expect."""
    os.makedirs(root, exist_ok=True)  # a string throughout: paths are joined to roots here
    mounts.attach(mounts.Mount(mounts.make_tmpfs(ROOT_BYTES, ROOT_INODES, owner=None), root))
    sandbox = SandboxRoot(root, owner, offer, plan["sockets"])
    for target, link in plan["links"]:
        os.symlink(target, root + link)
    for path, content in plan["files"].items():
        mounts.make_mount_point(root + path, directory=False)
        with open(root + path, "w", encoding="utf-8") as file:
            file.write(content.format(uid=owner[0], gid=owner[1]))
    for directory in ("/proc", "/dev", GATE, BELOW, BELOW + WRITABLE):
        os.mkdir(root + directory, 0o755)
    os.symlink(WRITABLE[1:] + TEMPORARY, root + BELOW + TEMPORARY)
    devices = [
        {"kind": "bind", "from": f"/dev/{device}", "at": f"/dev/{name}", "write": True, "device": True}
        for name, device in DEVICES.items()
    ]
    sandbox.furnish(devices)
    for number, name in enumerate(STREAMS):
        os.symlink(f"/proc/self/fd/{number}", f"{root}/dev/{name}")
    os.symlink("/proc/self/fd", f"{root}/dev/fd")
    sandbox.furnish(plan["mounts"])
    return sandbox


@contextlib.contextmanager
def _inside(namespace: int) -> Iterator[None]:
    """Be in another mount namespace for a while."""
    home = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        namespaces.enter(namespace)
        yield
    finally:
        namespaces.enter(home)
        os.close(home)
