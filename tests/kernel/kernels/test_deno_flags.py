"""A real Deno keeps to the permissions that its flags grant: all tries are made by one program."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib.util import find_spec

import pytest

from cellwright.kernels import deno
from cellwright.kernels.deno import DenoAccess, deno_flags, find_deno
from cellwright.sandbox.policy import Policy
from tests.conftest import Require

TRIES = {
    "reads its directory": ("Deno.readTextFileSync('own.txt')", True),
    "writes its directory": ("Deno.writeTextFileSync('new.txt', 'x')", True),
    "reads the project": ("Deno.readTextFileSync('../beside.txt')", True),
    "writes the project": ("Deno.writeTextFileSync('../beside.txt', 'x')", False),
    "reads outside": ("Deno.readTextFileSync('/etc/passwd')", False),
    "makes a link to outside": ("Deno.symlinkSync('/etc/passwd', 'link')", False),
    "imports outside": ("await import('file:///etc/passwd')", False),
    "reads its environment": ("Deno.env.toObject()", True),
    "knows the system": ("Deno.osRelease(); Deno.systemMemoryInfo()", True),
    "runs a program": ("new Deno.Command('true').outputSync()", False),
    "runs a program in Node's way": ("(await import('node:child_process')).execSync('true')", False),
    "loads a library": ("Deno.dlopen('libc.so.6', {})", False),
    "fetches": ("await fetch('http://127.0.0.1:1/')", False),
    "connects": ("await Deno.connect({hostname: '127.0.0.1', port: 1})", False),
    "imports from the network": ("await import('https://deno.land/x/x.ts')", False),
    "imports from npm": ("await import('npm:never-cached@1.0.0')", False),
}
# Each in a scope of its own: `seen` is what came of it.
TRY = "try { %s; seen[%s] = 'done' } catch (error) { seen[%s] = String(error) }"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, require: Require) -> dict[str, str]:
    """What came of every try, by its name."""
    require("Deno", shutil.which("deno") is not None or find_spec("deno") is not None, deno.INSTALL)
    root = tmp_path_factory.mktemp("flags")
    inside = root / "project" / "cwd"
    inside.mkdir(parents=True)
    (inside / "own.txt").write_text("own")
    (inside.parent / "beside.txt").write_text("beside")
    tries = [TRY % (code, json.dumps(name), json.dumps(name)) for name, (code, _) in TRIES.items()]
    program = root / "program.mjs"
    program.write_text("\n".join(["const seen = {};", *tries, "console.log(JSON.stringify(seen));"]))
    flags = deno_flags(Policy(), DenoAccess(read=[str(inside.parent)], write=[str(inside)]))
    ran = subprocess.run(
        [str(find_deno()), "run", *flags, str(program)],
        cwd=inside,
        env={"DENO_DIR": str(root / "deno"), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, str] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("name", TRIES)
def test_a_real_deno_keeps_to_the_flags(name: str, seen: dict[str, str]) -> None:
    _, allowed = TRIES[name]
    assert (seen[name] == "done") is allowed, seen[name]
