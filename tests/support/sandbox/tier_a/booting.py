"""Boots a virtual machine whose cgroups are all version 2, and runs ``checks.py`` there: once as an ordinary user to
whom a cgroup was delegated, once as root. By hand, where the machine itself cannot be tier A::

    apt-get install qemu-system-x86 busybox-static cpio e2fsprogs
    python tests/support/sandbox/tier_a/booting.py --work /tmp/tier-a

The guest is this interpreter, its packages and this checkout on a Debian kernel. It emulates, so it takes minutes.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

CHECKOUT = Path(__file__).parents[4]
USER = 1000
ANCHOR = "linux-image-cloud-amd64"
MODULES = (
    "virtio",
    "virtio_ring",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
    "overlay",
)
APPLETS = (
    "sh",
    "mount",
    "mkdir",
    "insmod",
    "switch_root",
    "chown",
    "poweroff",
    "sleep",
    "ip",
    "chmod",
    "echo",
    "cat",
)
NEVER = (
    "mypy*",
    "ruff*",
    "pandas*",
    "scipy*",
    "sklearn*",
    "matplotlib*",
    "plotly*",
    "pyarrow*",
    "test",
    "idlelib",
)
INITRAMFS = """#!/bin/sh
mount -t proc proc /proc; mount -t devtmpfs dev /dev
for module in {modules}; do insmod /$module.ko; done
mount -t ext4 /dev/vda /new
exec switch_root /new /init
"""
INIT = """#!/bin/sh
export PATH=/usr/bin
BECOME='import os, sys; u = int(sys.argv[1]); os.setgroups([]); os.setgid(u); os.setuid(u); os.execv(sys.argv[2], sys.argv[2:])'
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mkdir -p /dev/shm
mount -t tmpfs run /run; chmod 1777 /tmp
mount -t cgroup2 cgroup /sys/fs/cgroup
ip link set lo up
cd {checkout}
echo "+memory +pids +cpu" > /sys/fs/cgroup/cgroup.subtree_control
for user in {user} 0; do
  group=/sys/fs/cgroup/given-$user
  mkdir $group /tmp/$user; chown -R $user $group /tmp/$user
  echo "== as user $user: cgroups are $(cat /sys/fs/cgroup/cgroup.controllers)"
  ( echo 0 > $group/cgroup.procs; export TMPDIR=/tmp/$user XDG_RUNTIME_DIR=/tmp/$user HOME=/tmp/$user
    export HYPOTHESIS_STORAGE_DIRECTORY=/tmp/$user/hypothesis
    exec {python} -c "$BECOME" $user {python} -m pytest -p no:cacheprovider -o timeout=600 {arguments} {checks} )
  echo "== user $user ended with $?"
done
poweroff -f
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="a directory for the kernel and the image")
    parser.add_argument("arguments", nargs="*", help="for pytest")
    options = parser.parse_args()
    work: Path = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    kernel = _kernel(work)
    _image(work, shlex.join(options.arguments) or "-v")
    _initramfs(work, kernel)
    return _boot(work, kernel)


def _kernel(work: Path) -> Path:
    """A Debian kernel, unpacked and not installed."""
    if not (work / "kernel").is_dir():
        told = _output("apt-cache", "depends", ANCHOR)
        (name,) = re.findall(r"Depends: (linux-image-\S+)", told)[:1]
        _output("apt-get", "download", name, cwd=work)
        (package,) = work.glob(f"{name}_*.deb")
        _output("dpkg", "-x", str(package), str(work / "kernel"))
    return next((work / "kernel" / "boot").glob("vmlinuz-*"))


def _image(work: Path, arguments: str) -> None:
    root = work / "root"
    shutil.rmtree(root, ignore_errors=True)
    for name in ("proc", "sys", "dev", "tmp", "run", "etc", "usr/bin", "usr/lib64", "usr/lib", "new"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "etc" / "passwd").write_text(f"root:x:0:0::/tmp:/bin/sh\nuser:x:{USER}:{USER}::/tmp:/bin/sh\n")
    (root / "etc" / "group").write_text(f"root:x:0:\nuser:x:{USER}:\n")
    _busybox(root / "usr" / "bin")
    library, scripts = Path(sysconfig.get_path("stdlib")), Path(sys.prefix, "bin")
    _copy(library, root, *NEVER, "site-packages")
    for name in ("lib", "share/jupyter"):
        _copy(Path(sys.prefix, name), root, *NEVER)
    for path in (
        *scripts.glob("python*"),
        Path(sys.prefix, "pyvenv.cfg"),
        Path(sys.base_prefix, "bin", "python3.11"),
    ):
        _place(path, root)
    for path in ("src", "tests", "pyproject.toml", "docs"):
        _copy(CHECKOUT / path, root)
    _libraries(
        [
            Path(os.path.realpath(sys.executable)),
            *library.rglob("*.so"),
            *Path(sys.prefix).rglob("zmq/**/*.so"),
        ],
        root,
    )
    init = INIT.format(
        checkout=CHECKOUT,
        user=USER,
        python=sys.executable,
        arguments=arguments,
        checks=Path(__file__).with_name("checks.py"),
    )
    _script(root / "init", init)
    image = work / "image"
    image.unlink(missing_ok=True)
    _output("mke2fs", "-q", "-t", "ext4", "-d", str(root), "-E", "root_owner=0:0", str(image), "3G")


def _initramfs(work: Path, kernel: Path) -> None:
    root = work / "initramfs"
    shutil.rmtree(root, ignore_errors=True)
    for name in ("bin", "proc", "dev", "new"):
        (root / name).mkdir(parents=True)
    _busybox(root / "bin")
    for name in MODULES:
        (found,) = kernel.parents[1].rglob(f"{name}.ko")
        shutil.copy(found, root)
    _script(root / "init", INITRAMFS.format(modules=" ".join(MODULES)))
    names = "\n".join(str(path.relative_to(root)) for path in root.rglob("*"))
    (work / "initramfs.list").write_text(names)
    _output("sh", "-c", "cpio -o -H newc --quiet < ../initramfs.list > ../initramfs.cpio", cwd=root)


def _boot(work: Path, kernel: Path) -> int:
    command = [
        "qemu-system-x86_64",
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        "max",
        "-smp",
        "2",
        "-m",
        "3G",
        "-nographic",
        "-no-reboot",
    ]
    command += ["-nic", "none", "-kernel", str(kernel), "-initrd", str(work / "initramfs.cpio")]
    command += [
        "-drive",
        f"file={work / 'image'},if=virtio,format=raw",
        "-append",
        "console=ttyS0 quiet panic=-1",
    ]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace"
    ) as machine:
        codes = []
        for line in machine.stdout or ():
            sys.stdout.write(line)
            sys.stdout.flush()
            codes += re.findall(r"^== user \d+ ended with (\d+)", line)
    return 0 if codes == ["0", "0"] else 1


def _busybox(directory: Path) -> None:
    shutil.copy("/bin/busybox", directory)
    for name in APPLETS:
        (directory / name).symlink_to("busybox")


def _script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _copy(source: Path, root: Path, *never: str) -> None:
    target = root / str(source).lstrip("/")
    if source.is_file():
        _place(source, root)
    else:
        shutil.copytree(
            source, target, symlinks=True, ignore=shutil.ignore_patterns(*never), dirs_exist_ok=True
        )


def _place(path: Path, root: Path) -> None:
    target = root / str(path).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, target, follow_symlinks=False)


def _libraries(programs: Iterable[Path], root: Path) -> None:
    """What these are linked with."""
    command = ["/usr/bin/ldd", *map(str, programs)]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    for path in sorted(set(re.findall(r"(?:=> |^\s+)(/\S+)", told, re.MULTILINE))):
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def _output(*command: str, cwd: Path | None = None) -> str:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
