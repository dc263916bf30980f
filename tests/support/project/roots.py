"""Debian roots made by debootstrap, in which the steps of a container file run as a container's builder would run them.

There is no container engine where the tests run. A root is entered with namespaces of its own by ``unshare`` and
``pivot_root``; with ``filtered`` also behind the refusals of a container engine's default seccomp profile. Reads only the
instructions that our Dockerfile has, and refuses others.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.support.clients.installing import ROOT

CACHE = ROOT / ".cache" / "roots"
FILTER = Path(__file__).with_name("container_filter.py")
NEEDED = ("debootstrap", "unshare", "setpriv")
CA = Path("/etc/ssl/certs/ca-certificates.crt")
CA_VARIABLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")
_ENTER = """\
set -e
mount --make-rprivate /
mount --bind "$0" "$0"
for name in dev sys; do mount --rbind /$name "$0/$name"; done
mount -t proc proc "$0/proc"
cp /etc/resolv.conf "$0/etc/resolv.conf"
cd "$0"
mkdir -p .old
pivot_root . .old
umount -l .old
rmdir .old
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Image:
    """A root, and how a container made of it starts."""

    root: Path
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str = "root"
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()

    def run(
        self, *argv: str, stdin: str = "", filtered: bool = False, limit_s: float = 900
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as a container of this image would; ``filtered`` as by default, else without its profile."""
        inside = ["setpriv", *self._identity(), "env", "-i", "-C", self.workdir, *self._variables()]
        if filtered:
            shutil.copy(FILTER, self.root / "run" / FILTER.name)
            inside += ["python3", f"/run/{FILTER.name}"]
        outside = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--ipc"]
        return subprocess.run(
            [*outside, "sh", "-c", _ENTER, str(self.root), *inside, *argv],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )

    def start(self, *argv: str, **options: bool) -> subprocess.CompletedProcess[str]:
        """Run the entry point with arguments."""
        return self.run(*self.entrypoint, *(argv or self.command), **options)

    def _identity(self) -> list[str]:
        if self.user == "root":
            return ["--reuid=0", "--regid=0", "--clear-groups"]
        return [
            f"--reuid={self.user}",
            f"--regid={self.user}",
            "--init-groups",
            "--inh-caps=-all",
            "--bounding-set=-all",
        ]

    def _variables(self) -> list[str]:
        variables = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        return [f"{name}={value}" for name, value in (variables | dict(self.env)).items()]


def debian(suite: str, require: Callable[[str, bool, str], None]) -> Image:
    """A minimal root of a release, from the cache, or made now."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    require(
        " and ".join(missing) or "debootstrap", not missing, "apt install debootstrap util-linux, as root"
    )
    require("root", os.getuid() == 0, "run as root: a root is made and entered")
    made = CACHE / suite
    if not made.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        building = CACHE / f".making-{suite}-{os.getpid()}"
        done = subprocess.run(
            ["debootstrap", "--variant=minbase", suite, building], capture_output=True, text=True, check=False
        )
        require(f"Debian {suite}", done.returncode == 0, f"reach a Debian mirror: {done.stdout[-300:]}")
        building.rename(made)
    return Image(made)


def build(dockerfile: Path, base: Image, scratch: Path) -> Image:
    """Carry out a Dockerfile's instructions; the last stage's image."""
    building = _Building(dockerfile.parent, base, scratch)
    for instruction, rest in _instructions(dockerfile.read_text()):
        if instruction in ("LABEL", "EXPOSE", "VOLUME"):
            continue
        step = getattr(building, instruction.lower(), None) or getattr(
            building, f"{instruction.lower()}_", None
        )
        if step is None:
            raise ValueError(f"{dockerfile.name}: {instruction} is not known here: add it to {__name__}")
        step(rest)
    return building.image


@dataclass(slots=True)
class _Building:
    """An image on its way: a method for each instruction."""

    context: Path
    base: Image
    scratch: Path
    image: Image = field(init=False)
    stages: dict[str, Image] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)

    def from_(self, rest: str) -> None:
        name = rest.rsplit(maxsplit=1)[-1]
        self.image = self.stages[name] = fresh(self.base, self.scratch / name.replace(":", "-"))

    def run(self, rest: str) -> None:
        run_step(replace(self.image, env={**self.image.env, **self.arguments}), rest)

    def copy(self, rest: str) -> None:
        _copy_in(rest, self.image, self.stages, self.context)

    def arg(self, rest: str) -> None:
        name, _, value = rest.partition("=")
        self.arguments[name] = value

    def env(self, rest: str) -> None:
        pairs = dict(pair.split("=", 1) for pair in shlex.split(rest))
        self.image = replace(self.image, env={**self.image.env, **pairs})

    def workdir(self, rest: str) -> None:
        (self.image.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        self.image = replace(self.image, workdir=rest)

    def user(self, rest: str) -> None:
        self.image = replace(self.image, user=rest)

    def entrypoint(self, rest: str) -> None:
        self.image = replace(self.image, entrypoint=tuple(json.loads(rest)))

    def cmd(self, rest: str) -> None:
        self.image = replace(self.image, command=tuple(json.loads(rest)))


def _instructions(text: str) -> list[tuple[str, str]]:
    lines = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)
    joined = re.sub(r"\\\n\s*", "", lines)
    found = (line.split(None, 1) for line in joined.splitlines() if line.strip())
    return [(instruction, rest) for instruction, rest in found]


def fresh(image: Image, place: Path) -> Image:
    """A copy of a root, to be changed."""
    subprocess.run(["cp", "-a", "--reflink=auto", image.root, place], check=True)
    if CA.exists():
        # As this machine reaches its mirrors, with the authorities that it trusts.
        shutil.copy(CA, place / "run" / "ca.crt")
    return replace(image, root=place)


def run_step(image: Image, command: str) -> None:
    """Run a shell command as root, as a container's builder does.

    Raises:
        AssertionError: it failed.
    """
    trust = dict.fromkeys(CA_VARIABLES, "/run/ca.crt") if (image.root / "run" / "ca.crt").exists() else {}
    done = replace(image, env={**image.env, **trust}, user="root").run("sh", "-c", command)
    if done.returncode != 0:
        raise AssertionError(
            f"RUN {command} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
        )


def _copy_in(rest: str, image: Image, stages: Mapping[str, Image], context: Path) -> None:
    words: Sequence[str] = shlex.split(rest)
    origin = context
    if words[0].startswith("--from="):
        origin, words = stages[words[0].removeprefix("--from=")].root, words[1:]
    *names, target = words
    place = (
        image.root / target.lstrip("/")
        if target.startswith("/")
        else image.root / image.workdir.lstrip("/") / target
    )
    for name in names:
        path = origin / name.lstrip("/")
        if not path.is_dir():
            into = place / path.name if target.endswith("/") else place
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, into)
        elif origin == context:
            shutil.copytree(path, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            subprocess.run(["cp", "-a", path, place], check=True)
