"""Builds what a confined process sees of the machine, and changes it once more when its session is known.

Follows a plan to the letter; what stands in a plan is decided by ``cellwright.sandbox``.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cellwright_kernel import _namespaces
from cellwright_kernel._syscalls import invoke, libc, unmount

__all__ = ["BELOW", "SandboxRoot", "build", "make_proc"]

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
    offer: Offer
    sockets: str
    """Where the first kernel made its sockets, which is nobody else's business."""

    def furnish(self, entries: list[dict[str, Any]]) -> None:
        """Mount what the entries say, each below the root."""
        for entry in entries:
            mount = self._make(entry)
            mount.at = self.root + mount.at
            make_mount_point(mount.at, directory=mount.directory)
            attach(mount)

    def refurnish(
        self, namespace: int, entries: list[dict[str, Any]], dropped: list[str], first: Sequence[str] = ()
    ) -> None:
        """Mount and unmount in the mount namespace that grew from this root, then come back.

        ``first`` is unmounted before anything else: what is mounted takes its place.
        """
        made = [self._make(entry) for entry in entries]
        gate = next((entry["at"] for entry in entries if entry["kind"] == "gate"), None)
        for mount in made:
            make_mount_point(self._place_of(mount.at, gate), directory=mount.directory)
        with _inside(namespace):
            for path in first:
                unmount(path)
            for mount in made:
                attach(mount)
            for path in dropped:
                unmount(path)

    def share(self, namespace: int, path: str) -> int:
        """What is mounted at a path in the mount namespace that grew from this root, for another sandbox to mount."""
        with _inside(namespace):
            return copy_tree(path, read_only=False)

    def furnish_below(
        self, namespace: int, proc: int, private: list[dict[str, Any]], entries: list[dict[str, Any]]
    ) -> None:
        """Give a new mount namespace a root like this one, but without what was mounted for a session."""
        self._prepare_places(entries)
        trees = [*self._trees(), Mount(proc, "/proc")]
        for tree in trees:
            make_mount_point(self.root + BELOW + tree.at, directory=True)
        # A rule of Landlock holds for an inode, or for what is mounted in a directory that has one: a new file system
        # at /tmp itself would be writable to nobody.
        made = [self._make(entry) for entry in (*private, *entries)]
        for mount in made:
            if mount.at == TEMPORARY:
                mount.at = WRITABLE + TEMPORARY
                make_mount_point(self.root + BELOW + mount.at, directory=True)
        root = Mount(copy_tree(self.root + BELOW, read_only=True), "/")
        with _inside(namespace):
            attach(root)
        # Whoever enters from here on is in the new root.
        with _inside(namespace):
            for mount in (*trees, *made):
                make_mount_point(mount.at, directory=mount.directory)
                attach(mount)

    def _prepare_places(self, entries: list[dict[str, Any]]) -> None:
        gate = next((entry["at"] for entry in entries if entry["kind"] == "gate"), None)
        for entry in entries:
            if not entry["at"].startswith(f"{TEMPORARY}/"):
                is_file = entry["kind"] == "bind" and not os.path.isdir(entry["from"])
                make_mount_point(self._place_of(entry["at"], gate), directory=not is_file)

    def _trees(self) -> list[Mount]:
        """What stands in this root, each thing to be mounted in another."""
        trees: list[Mount] = []
        for entry in os.scandir(self.root):
            if entry.is_symlink():
                # It is the same for all, and another may be at it at the same time.
                with contextlib.suppress(FileExistsError):
                    os.symlink(os.readlink(entry.path), f"{self.root}{BELOW}/{entry.name}")
            elif f"/{entry.name}" not in {BELOW, GATE, STAGE, TEMPORARY, "/proc", self.sockets}:
                # A directory of the root itself may be written here, by us.
                own = entry.stat().st_dev == os.stat(self.root).st_dev
                trees.append(Mount(copy_tree(entry.path, read_only=own), f"/{entry.name}"))
        return trees

    def _make(self, entry: dict[str, Any]) -> Mount:
        return make(entry, gate=self.root + GATE, stage=self.root + STAGE, owner=self.owner, offer=self.offer)

    def _place_of(self, at: str, gate: str | None) -> str:
        if gate is not None and at.startswith(f"{gate}/"):
            return self.root + GATE + at[len(gate) :]
        return self.root + at


def build(root: str, plan: dict[str, Any], owner: tuple[int, int], offer: Offer) -> SandboxRoot:
    """Make the root: the system read-only, the interpreter, devices, and the few files that programs expect."""
    os.makedirs(root, exist_ok=True)  # a string throughout: paths are joined to roots here
    attach(Mount(make_tmpfs(ROOT_BYTES, ROOT_INODES, owner=None), root))
    sandbox = SandboxRoot(root, owner, offer, plan["sockets"])
    for target, link in plan["links"]:
        os.symlink(target, root + link)
    for path, content in plan["files"].items():
        make_mount_point(root + path, directory=False)
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
        _namespaces.enter(namespace)
        yield
    finally:
        _namespaces.enter(home)
        os.close(home)


# Mounts as values: made out of sight, shaped, then put in place. Knows no policy (the plan says what to
# mount).

AT_FDCWD = -100

AT_EMPTY_PATH = 0x1000

AT_RECURSIVE = 0x8000

OPEN_TREE_CLONE = 1

OPEN_TREE_CLOEXEC = os.O_CLOEXEC

MOVE_MOUNT_F_EMPTY_PATH = 4

ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV, ATTR_NOEXEC = 1, 2, 4, 8

ATTR_IDMAP = 0x100000

FSOPEN_CLOEXEC = FSMOUNT_CLOEXEC = 1

SET_FLAG, SET_STRING, CREATE = 0, 1, 6

CLONE_NEWUSER = 0x10000000

STRANGER = 0x0FFFFFFF

Owner = tuple[int, int]

Offer = Callable[[int], None]
"""Shows a directory to the host, which may fill it before anybody else sees it."""


class Mount:
    """A mount that is nowhere yet, and the path at which it is meant to be."""

    def __init__(self, fd: int, at: str, *, directory: bool = True) -> None:
        self.fd = fd
        self.at = at
        self.directory = directory


def make(entry: dict[str, Any], *, gate: str, stage: str, owner: Owner, offer: Offer) -> Mount:
    """Make what one entry of a plan describes; ``owner`` is whom files of the session's own are to belong to."""
    kind, at = entry["kind"], entry["at"]
    if kind == "bind":
        return _bind(entry, owner)
    if kind == "gate":
        # Whatever is mounted in this directory is writable as far as Landlock is concerned.
        return Mount(copy_tree(gate, read_only=True), at)
    if kind == "tmpfs":
        fd = make_tmpfs(entry["bytes"], entry["inodes"], owner=owner, write=entry["write"])
        if entry.get("offered"):
            _show(fd, ".", offer)
        return Mount(fd, at)
    if kind == "overlay":
        return _overlay(entry, owner, stage, offer)
    if kind == "given":
        # Another sandbox's own, as its monitor handed it out.
        return Mount(entry["fd"], at)
    raise ValueError(f"unknown kind of mount {kind!r}")


def attach(mount: Mount) -> None:
    """Put a mount in its place, which must be there."""
    try:
        invoke("move_mount", mount.fd, b"", AT_FDCWD, os.fsencode(mount.at), MOVE_MOUNT_F_EMPTY_PATH)
    finally:
        os.close(mount.fd)


def make_mount_point(path: str, *, directory: bool) -> None:
    """Make something to mount on, with the directories above it."""
    if os.path.lexists(path):
        return
    os.makedirs(path if directory else os.path.dirname(path), mode=0o755, exist_ok=True)
    if not directory:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o444))


def make_tmpfs(size: int, inodes: int, *, owner: Owner | None, write: bool = True, mode: str = "0755") -> int:
    """A file system in memory with hard limits."""
    options = {"size": str(size), "nr_inodes": str(inodes), "mode": mode}
    if owner is not None:
        options |= {"uid": str(owner[0]), "gid": str(owner[1])}
    return _create("tmpfs", options, ATTR_NOSUID | ATTR_NODEV | (0 if write else ATTR_RDONLY))


def make_proc() -> int:
    """A view of the processes of this pid namespace; what one may not look into is not seen."""
    return _create("proc", {"hidepid": "invisible"}, ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC)


def copy_tree(source: str, *, read_only: bool) -> int:
    """A directory with everything that is mounted below it; ``read_only`` is about the directory's own mount."""
    fd = _clone(source)
    if read_only:
        _set_attributes(fd, ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV)
    return fd


def _bind(entry: dict[str, Any], owner: Owner | None) -> Mount:
    source, attributes = entry["from"], ATTR_NOSUID
    if not entry.get("device"):
        attributes |= ATTR_NODEV
    if not entry["write"]:
        attributes |= ATTR_RDONLY
    fd = _clone_plain(source) if entry.get("plain") else _clone(source)
    status = os.fstat(fd)
    _shape(fd, attributes, owner if entry.get("own") else None, status)
    return Mount(fd, entry["at"], directory=stat.S_ISDIR(status.st_mode))


def _clone(source: str) -> int:
    flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE
    return invoke("open_tree", AT_FDCWD, os.fsencode(source), flags)


def _clone_plain(source: str) -> int:
    """The same, but no name on the way may be a link: code that can write there could have put one."""
    fd = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in filter(None, source.split("/")):
            inside = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            os.close(fd)
            fd = inside
            if stat.S_ISLNK(os.fstat(fd).st_mode):
                raise OSError(errno.ELOOP, f"{source} has a link in it")
        flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH
        return invoke("open_tree", fd, b"", flags)
    finally:
        os.close(fd)


def _shape(fd: int, attributes: int, owner: Owner | None, status: os.stat_result) -> None:
    _set_attributes(fd, attributes, depth=AT_RECURSIVE)
    if owner is not None and (status.st_uid, status.st_gid) != owner:
        with identity_map((status.st_uid, status.st_gid), owner) as map_fd:
            # Only of this one mount: what is mounted below a project keeps its owners.
            _set_attributes(fd, ATTR_IDMAP, map_fd=map_fd)


def _set_attributes(fd: int, attributes: int, *, depth: int = 0, map_fd: int = 0) -> None:
    packed = ctypes.create_string_buffer(struct.pack("QQQQ", attributes, 0, 0, map_fd), 32)
    invoke("mount_setattr", fd, b"", AT_EMPTY_PATH | depth, packed, 32)


@contextlib.contextmanager
def identity_map(on_disk: Owner, seen_as: Owner) -> Iterator[int]:
    """A user namespace in which files of one owner are another's; for whoever may change owners anyway."""
    ready_read, ready_write = os.pipe()
    done_read, done_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(done_write)
        os.write(ready_write, b"1" if libc.unshare(CLONE_NEWUSER) == 0 else b"0")
        os.read(done_read, 1)
        os._exit(0)
    os.close(done_read)
    os.close(ready_write)
    try:
        if os.read(ready_read, 1) != b"1":
            raise PermissionError("a user namespace for changing owners was refused")
        number = _number_in_proc(pid)
        for name, disk, seen in (("uid", on_disk[0], seen_as[0]), ("gid", on_disk[1], seen_as[1])):
            # The second line is for what root itself makes in an overlay's work directory.
            Path(f"/proc/{number}/{name}_map").write_text(f"{disk} {seen} 1\n{STRANGER} 0 1\n")
        fd = os.open(f"/proc/{number}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(ready_read)
        os.close(done_write)
        os.waitpid(pid, 0)
    try:
        yield fd
    finally:
        os.close(fd)


def _number_in_proc(pid: int) -> int:
    """A child's number where ``/proc`` is another pid namespace's than ours."""
    pidfd = os.pidfd_open(pid)
    try:
        told = Path(f"/proc/self/fdinfo/{pidfd}").read_text()
    finally:
        os.close(pidfd)
    return int(next(line for line in told.splitlines() if line.startswith("Pid:")).split()[1])


def _show(directory: int, name: str, offer: Offer) -> None:
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    try:
        offer(fd)
    finally:
        os.close(fd)


def _overlay(entry: dict[str, Any], owner: Owner, stage: str, offer: Offer) -> Mount:
    """The project as it is, with every write in the session's own layer."""
    lower, layer = f"{stage}/lower", f"{stage}/layer"
    # An overlay takes paths, so its parts are mounted for a moment, with owners as the session is to see them.
    below = _bind({"from": entry["lower"], "at": lower, "write": False, "own": True}, owner)
    with contextlib.ExitStack() as stack:
        for part in (below, Mount(_layer(entry, owner, offer), layer)):
            make_mount_point(part.at, directory=True)
            attach(part)
            stack.callback(unmount, part.at)
        options = {"lowerdir": lower, "upperdir": f"{layer}/upper", "workdir": f"{layer}/work"}
        # Without root's attributes an overlay keeps its notes in the user's own, and then makes whole copies by itself.
        flags = () if os.getuid() == 0 else ("userxattr",)
        if os.getuid() == 0:
            options |= {"redirect_dir": "off", "metacopy": "off"}
        return Mount(_create("overlay", options, ATTR_NOSUID | ATTR_NODEV, flags), entry["at"])


def _layer(entry: dict[str, Any], owner: Owner, offer: Offer) -> int:
    """Where writes go: memory of a fixed size that the host fills and saves, or a directory on the disk."""
    memory = entry["memory"]
    if memory is None:
        return _bind({"from": entry["layer"], "at": "", "write": True, "own": True}, owner).fd
    # Two inodes are the overlay's own.
    fd = make_tmpfs(memory["bytes"], memory["inodes"] + 2, owner=owner)
    for name in ("upper", "work"):
        os.mkdir(name, 0o700, dir_fd=fd)
        os.chown(name, *owner, dir_fd=fd)
    _show(fd, "upper", offer)
    return fd


def _create(kind: str, options: dict[str, str], attributes: int, flags: Sequence[str] = ()) -> int:
    context = invoke("fsopen", os.fsencode(kind), FSOPEN_CLOEXEC)
    try:
        for name in flags:
            invoke("fsconfig", context, SET_FLAG, os.fsencode(name), None, 0)
        for name, value in options.items():
            invoke("fsconfig", context, SET_STRING, os.fsencode(name), os.fsencode(value), 0)
        invoke("fsconfig", context, CREATE, None, None, 0)
        return invoke("fsmount", context, FSMOUNT_CLOEXEC, attributes)
    finally:
        os.close(context)
