"""``make release``: the same bytes twice, every file named by its checksum, and a signature that holds."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

import cellwright
from scripts.release import NAMESPACE
from scripts.versions import ROOT

VERSION = cellwright.__version__


def _run(*command: str | Path, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, cwd=ROOT, input=given, capture_output=True, check=False)


def _release(dist: Path, *options: str | Path) -> subprocess.CompletedProcess[bytes]:
    return _run(sys.executable, "-m", "scripts.release", "--dist", dist, *options)


def test_a_release_is_the_same_bytes_twice_whole_and_signed(tmp_path: Path) -> None:
    key = tmp_path / "key"
    assert _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).returncode == 0
    signed, plain = tmp_path / "signed", tmp_path / "plain"
    done = _release(signed, "--signing-key", key)
    assert done.returncode == 0, done.stderr
    plain.mkdir()
    (plain / "cellwright-0.0.1.tar.gz").write_text("of an earlier build")
    (plain / "mine.txt").write_text("not of a build")
    done = _release(plain)
    assert done.returncode == 0, done.stderr
    assert b"SIGNING_KEY" in done.stderr, "Without a key it says how to sign"

    built = {file.name: file.read_bytes() for file in signed.iterdir()}
    signature = built.pop("SHA256SUMS.sig")
    (plain / "mine.txt").unlink()
    assert built == {file.name: file.read_bytes() for file in plain.iterdir()}
    sums = built.pop("SHA256SUMS")
    listed = dict(reversed(line.split("  ")) for line in sums.decode().splitlines())
    assert listed == {name: hashlib.sha256(content).hexdigest() for name, content in built.items()}

    signers = tmp_path / "signers"
    signers.write_text(f"release {key.with_suffix('.pub').read_text()}")
    (tmp_path / "sig").write_bytes(signature)
    verify = [
        "ssh-keygen",
        "-Y",
        "verify",
        "-f",
        signers,
        "-I",
        "release",
        "-n",
        NAMESPACE,
        "-s",
        tmp_path / "sig",
    ]
    assert _run(*verify, given=sums).returncode == 0
    assert _run(*verify, given=sums + b" ").returncode != 0

    _check_contents(signed)


def _check_contents(dist: Path) -> None:
    with zipfile.ZipFile(dist / f"cellwright-{VERSION}-py3-none-any.whl") as wheel:
        assert "cellwright/daemon/greetings.json" in wheel.namelist()
    with tarfile.open(dist / f"cellwright-{VERSION}.tar.gz") as sdist:
        names = sdist.getnames()
        assert f"cellwright-{VERSION}/plugin/.mcp.json" in names
        assert not [name for name in names if ".venv" in name or "__pycache__" in name]
    with tarfile.open(dist / f"linux.cellwright-{VERSION}.tar.gz") as extension:
        assert "gemini-extension.json" in extension.getnames()
    bundle = dist / f"cellwright-{VERSION}.mcpb"
    with zipfile.ZipFile(bundle) as archive:
        assert sorted(archive.namelist()) == ["manifest.json", "pyproject.toml", "server.py"]
    entry = json.loads((dist / "server.json").read_text())["packages"][1]
    assert entry["fileSha256"] == hashlib.sha256(bundle.read_bytes()).hexdigest()
    bill = (dist / f"cellwright-{VERSION}.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None
    needs = {one["ref"]: one["dependsOn"] for one in json.loads(bill)["dependencies"]}
    assert any(ref.startswith("pkg:pypi/ipykernel@") for ref in needs[f"pkg:pypi/cellwright@{VERSION}"])


def test_systemd_accepts_the_user_unit(tmp_path: Path, require: Callable[[str, bool, str], None]) -> None:
    analyze = shutil.which("systemd-analyze")
    require("systemd-analyze", analyze is not None, "apt install systemd")
    command = tmp_path / ".local" / "bin" / "cellwright"
    command.parent.mkdir(parents=True)
    command.symlink_to(Path(sys.executable).with_name("cellwright"))
    done = subprocess.run(
        [analyze or "", "--user", "--man=no", "verify", ROOT / "packaging" / "cellwright.service"],
        env={**os.environ, "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
