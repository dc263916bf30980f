"""npm packages: which may be had, how they become layers, and that kernels find them without a network."""

from __future__ import annotations

import base64
import functools
import hashlib
import http.server
import io
import json
import shutil
import tarfile
import threading
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import pytest

from cellwright.errors import LimitReached, PackageFailed
from cellwright.kernels import DenoLauncher, Isolation, Kernel, KernelLaunch, OutputLimits
from cellwright.kernels.client import Message, new_message_id
from cellwright.kernels.deno import INSTALL, find_deno
from cellwright.sandbox.npm import NpmList, install_npm, is_npm_layer
from cellwright.sandbox.packages import InstallLimits, InstallResult
from cellwright.sandbox.policy import Policy
from cellwright.sandbox.probe import try_isolation
from cellwright.sandbox.workspace import PRIVATE, Workspace, prepare_storage
from tests.conftest import Require
from tests.support.kernels.denohouse import TINY
from tests.waiting import LIMIT_S, fail_after

APPROVED = NpmList(["left", "needy", "@scope/inner", "scripted"])


real = pytest.mark.anyio
PACKAGES: dict[str, dict[str, tuple[dict[str, str], str]]] = {
    "left": {"1.0.0": ({}, "export const side = 'left 1';"), "2.0.0": ({}, "export const side = 'left 2';")},
    "needy": {
        "1.0.0": ({"helper": "^1.0.0"}, "import { help } from 'helper'; export const needed = help + '!';")
    },
    "helper": {"1.0.0": ({}, "export const help = 'helped';")},
    "@scope/inner": {"0.1.0": ({}, "export const inner = true;")},
    "scripted": {"1.0.0": ({}, "export const ran = false;")},
}


# The same bytes each time: a listing holds their hash.
@functools.cache
def tarball(name: str, version: str) -> bytes:
    dependencies, code = PACKAGES[name][version]
    about = {
        "name": name,
        "version": version,
        "type": "module",
        "main": "index.js",
        "dependencies": dependencies,
    }
    if name == "scripted":
        about["scripts"] = {"install": "touch ran-by-npm", "postinstall": "touch ran-by-npm"}
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as archive:
        for file, text in {"package.json": json.dumps(about), "index.js": code}.items():
            entry = tarfile.TarInfo(f"package/{file}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return held.getvalue()


def listing(name: str, here: str) -> bytes:
    versions = {}
    for version, (dependencies, _) in PACKAGES[name].items():
        packed = tarball(name, version)
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(packed).digest()).decode()
        dist = {"tarball": f"{here}{name}/-/{version}.tgz", "integrity": integrity}
        versions[version] = {"name": name, "version": version, "dependencies": dependencies, "dist": dist}
        if name == "scripted":
            versions[version]["hasInstallScript"] = True
    return json.dumps({"name": name, "dist-tags": {"latest": max(versions)}, "versions": versions}).encode()


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch, require: Require) -> Iterator[str]:
    require("Deno", shutil.which("deno") is not None or find_spec("deno") is not None, INSTALL)

    class Registry(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.lstrip("/").replace("%2f", "/").replace("%2F", "/")
            name, _, file = path.partition("/-/")
            if name not in PACKAGES:
                self.send_error(404)
                return
            body = tarball(name, file.removesuffix(".tgz")) if file else listing(name, here)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # the standard library's name
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        here = f"http://127.0.0.1:{server.server_port}/"
        monkeypatch.setenv("NPM_CONFIG_REGISTRY", here)
        threading.Thread(target=server.serve_forever).start()
        yield here
        server.shutdown()


async def install(store: Path, *names: str, **options: Any) -> InstallResult:
    return await install_npm(names, deno=find_deno(), store=store, approved=APPROVED, **options)


@real
@pytest.mark.usefixtures("registry")
async def test_a_layer_holds_what_was_asked_for_and_what_that_needs(tmp_path: Path) -> None:
    result = await install(tmp_path, "needy", "npm:@scope/inner")
    assert [str(pin) for pin in result.installed] == [
        "npm:@scope/inner==0.1.0",
        "npm:helper==1.0.0",
        "npm:needy==1.0.0",
    ]
    assert result.not_listed == ("helper",)
    assert result.layer is not None
    assert is_npm_layer(result.layer.name)
    assert result.layer.stat().st_mode & 0o222 == 0
    again = await install(tmp_path, "@scope/inner", "needy")
    assert (again.layer, again.reused) == (result.layer, True)
    assert {entry.name for entry in tmp_path.iterdir()} - {".resolved"} == {result.layer.name}


@real
@pytest.mark.usefixtures("registry")
async def test_a_new_layer_holds_the_one_before_it_too(tmp_path: Path) -> None:
    first = await install(tmp_path, "left@1")
    second = await install(tmp_path, "needy", before=first.layer)
    assert [str(pin) for pin in second.installed] == ["npm:helper==1.0.0", "npm:needy==1.0.0"]
    assert second.layer is not None
    assert len(list(second.layer.glob("npm/*/left/1.0.0"))) == 1
    same = await install(tmp_path, "left@1", before=second.layer)
    assert (same.layer, same.already_there) == (None, ("npm:left@1",))


@real
@pytest.mark.usefixtures("registry")
async def test_nothing_of_a_package_is_run(tmp_path: Path) -> None:
    result = await install(tmp_path, "scripted")
    assert result.layer is not None
    assert not list(result.layer.rglob("ran-by-npm"))


@real
@pytest.mark.usefixtures("registry")
async def test_what_cannot_be_had_is_told(tmp_path: Path) -> None:
    with pytest.raises(PackageFailed, match="left"):
        await install(tmp_path, "left@7")
    with pytest.raises(LimitReached, match="bytes"):
        await install(tmp_path, "needy", limits=InstallLimits(max_bytes=100))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
async def launcher(tmp_path: Path) -> AsyncIterator[DenoLauncher]:
    store = tmp_path / "store"
    store.mkdir(mode=0o711)
    found = try_isolation()
    isolation = Isolation(found.tier, Policy(), packages=str(store), groups=found.groups)
    launcher = DenoLauncher(environment={}, start_timeout_s=LIMIT_S, driver=TINY, isolation=isolation)
    async with anyio.create_task_group() as tasks:
        await tasks.start(launcher.run)
        yield launcher
        tasks.cancel_scope.cancel()


async def start(launcher: DenoLauncher, root: Path, *layers: str) -> Kernel:
    storage = root / "session"
    place = Workspace("private", str(storage / PRIVATE), None, str(storage))
    storage.mkdir(exist_ok=True)
    prepare_storage(place)
    return await launcher.launch(
        KernelLaunch(
            "k",
            root / "k",
            Path(place.cwd),
            {},
            OutputLimits(10**6, 1000),
            workspace=place,
            layers=layers,
        )
    )


async def value(kernel: Kernel, code: str) -> str:
    """What an expression shows, or the error."""
    message_id, told, idle = new_message_id(), [], anyio.Event()

    def hear(message: Message) -> None:
        if message.parent_id == message_id:
            content = json.loads(message.content)
            if message.kind == "execute_result":
                told.append(content["data"]["text/plain"])
            elif message.kind == "execute_reply" and content["status"] == "error":
                told.append(content["evalue"])
            elif content.get("execution_state") == "idle":
                idle.set()

    kernel.client.on_message = hear
    kernel.client.execute(code, message_id=message_id)
    with fail_after():
        await idle.wait()
    return "".join(told)


@real
@pytest.mark.usefixtures("registry")
async def test_a_kernel_finds_its_packages_without_a_network(launcher: DenoLauncher, tmp_path: Path) -> None:
    store = tmp_path / "store"
    first = await install(store, "left@1")
    assert first.layer is not None
    kernel = await start(launcher, tmp_path, f"/packages/{first.layer.name}")
    assert await value(kernel, "import('npm:left@1').then((left) => left.side)") == "left 1"
    assert "--cached-only" in await value(kernel, "import('npm:scripted')")
    # One more, while it lives.
    second = await install(store, "needy", before=first.layer)
    assert second.layer is not None
    await kernel.add_layers((f"/packages/{second.layer.name}",))
    assert await value(kernel, "import('npm:needy@1').then((needy) => needy.needed)") == "helped!"
    assert await value(kernel, "import('npm:left@1').then((left) => left.side)") == "left 1"
    await kernel.stop(grace_s=5)
    assert {entry.name for entry in store.iterdir()} - {".resolved"} == {first.layer.name, second.layer.name}
