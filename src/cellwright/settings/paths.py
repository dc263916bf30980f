"""Where things lie on this machine: the storage directory by default, the private directory for sockets; and how what is the user's alone is made. Standard library only, and quick to import."""

from __future__ import annotations

import os
import stat

from cellwright.errors import CellwrightError

__all__ = [
    "NotPrivate",
    "cache_base",
    "default_storage",
    "find_storage",
    "make_private",
    "make_storage",
    "runtime_base",
    "socket_name",
    "user_settings_file",
    "write_private",
    "written_settings",
]

# Leaves room for our own names in the 107 bytes of a unix socket's path.
_LONGEST_BASE = 40

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing pathlib costs the byte pump a tenth of its start
    from pathlib import Path
    from typing import Any


class NotPrivate(CellwrightError):
    """A directory that must be this user's alone is not."""

    code = "not_private"


def default_storage() -> Path:
    """Where sessions and history are kept unless told otherwise."""
    from pathlib import Path  # see above

    return Path(_default_storage())


def find_storage(directory: str) -> str:
    """The storage directory of somebody who works in ``directory``: as ``load_settings`` would say, but quickly."""
    given = os.environ.get("CELLWRIGHT_STORAGE")
    if not given:
        from cellwright.settings import _files  # needed only where nothing is said more directly

        given = _files.storage_in_files(directory, user_settings_file())
    given = given or _default_storage()
    return os.path.realpath(os.path.join(directory, os.path.expanduser(given)))


def written_settings(directory: str) -> dict[str, Any]:
    """What files and variables say to somebody who works in ``directory``, as it is written: nothing of it is checked.

    Raises:
        SettingsUnreadable: a file is not TOML or JSON.
    """
    from pathlib import Path  # see above

    from cellwright.settings import _files  # as in find_storage

    said: dict[str, Any] = {}
    for file in _files.read_files(
        Path(directory), user_settings_file(), srcbook_file=os.environ.get("CELLWRIGHT_SRCBOOK_FILE")
    ):
        said |= file.values
    prefix = "cellwright_"
    variables = {name.lower(): value for name, value in os.environ.items()}
    return said | {
        name.removeprefix(prefix): value for name, value in variables.items() if name.startswith(prefix)
    }


def cache_base() -> str:
    """The user's directory for what can be made again, whatever the storage directory."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return f"{base}/cellwright"


def user_settings_file() -> str:
    """The settings file of this user, whether or not it is there."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(base, "cellwright", "cellwright.toml")


def runtime_base() -> str:
    """A private directory with a short path, for sockets."""
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    if given and len(given) <= _LONGEST_BASE and os.access(given, os.W_OK):
        return f"{given}/cellwright"
    temporary = os.environ.get("TMPDIR") or "/tmp"  # what lies in it is made 0700 and its owner checked
    if len(temporary) > _LONGEST_BASE or not os.access(temporary, os.W_OK):
        temporary = "/tmp"
    return f"{temporary}/cellwright-{os.getuid()}"


def socket_name(storage: str) -> str:
    """A short name for what belongs to one storage directory."""
    from hashlib import sha256  # quick, but not free

    return sha256(os.fsencode(storage)).hexdigest()[:12]


def make_storage(storage: str) -> None:
    """Make the directory of all that is kept, and that of sessions in it, in which nobody else can look around.

    Others may pass through: without namespaces root's sessions run as other users, each in a folder of its own.
    """
    os.makedirs(os.path.dirname(storage), exist_ok=True)
    # One that somebody made for more than this is theirs to close.
    for directory, ours in ((storage, f"{storage}/journal.db"), (f"{storage}/sessions", storage)):
        try:
            os.mkdir(directory, 0o711)
        except FileExistsError:
            status = os.stat(directory)
            if os.path.exists(ours) and status.st_uid == os.getuid():
                os.chmod(directory, stat.S_IMODE(status.st_mode) & 0o711)


def make_private(directory: str) -> str:
    """Make a directory that only this user can enter, and refuse one that somebody else made."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    status = os.lstat(directory)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise NotPrivate(
            f"{directory} is not a directory private to this user",
            hint=f"Remove it, or run `chmod 700 {directory}` if it is yours",
        )
    return directory


def write_private(path: str, content: bytes) -> None:
    """Replace a file that only this user can read: all at once for whoever reads it meanwhile, and for good."""
    # Another machine may write the same file on a file system that both share.
    fresh = f"{path}.{os.urandom(4).hex()}"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:  # a descriptor, opened 0600 from the start
            file.write(content)
            file.flush()
            os.fsync(fd)
        os.replace(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _default_storage() -> str:
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(base, "cellwright")
