"""A host of MCP Apps in a real browser: the package's own bridge over a real connection to the daemon."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import FrameLocator, Page, Route

from tests.conftest import Require
from tests.support.clients.installing import CACHE
from tests.waiting import LIMIT_S

HERE = Path(__file__).parent
SANDBOX = "http://sandbox.example/"


@dataclass
class AppHost:
    """A chat that shows one app."""

    page: Page

    @property
    def app(self) -> FrameLocator:
        return self.page.frame_locator("iframe").frame_locator("iframe")

    def show(self, tool: str, **arguments: Any) -> FrameLocator:
        """Call a tool as the model does, and show what came of it."""
        self.page.evaluate("([tool, args]) => host.show(tool, args)", [tool, arguments])
        return self.app

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool as the model does, without showing it."""
        result: dict[str, Any] = self.page.evaluate(
            "([tool, args]) => host.call(tool, args)", [tool, arguments]
        )
        assert not result.get("isError"), result
        return result

    @property
    def told(self) -> list[str]:
        """What apps had to say to the model."""
        found: list[str] = self.page.evaluate("() => host.told")
        return found


def open_host(page: Page, url: str, token: str, script: str) -> AppHost:
    """A host at the daemon's own origin, as the daemon answers no other, with its sandbox at another."""

    def sandbox(route: Route) -> None:
        domains = json.loads(parse_qs(urlsplit(route.request.url).query)["csp"][0])
        headers = {"content-security-policy": policy(domains), "content-type": "text/html"}
        body = f"<!doctype html><style>html, body {{ margin: 0; height: 100% }}</style><body><script>{(HERE / 'sandbox.js').read_text()}</script>"
        route.fulfill(headers=headers, body=body)

    page.route(f"{SANDBOX}**", sandbox)
    page.route(
        f"{url}/host",
        lambda route: route.fulfill(
            content_type="text/html",
            body="<!doctype html><title>Host</title><body></body>",
        ),
    )
    page.goto(f"{url}/host")
    page.add_script_tag(content=script)
    page.evaluate("token => host.connect(token)", token)
    return AppHost(page)


def policy(domains: dict[str, list[str]]) -> str:
    """The policy that SEP-1865 makes of what a resource declares."""

    def told(name: str, otherwise: str = "") -> str:
        return " ".join(domains.get(name) or [otherwise]).strip()

    resources = told("resourceDomains")
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src 'self' 'unsafe-inline' {resources}",
            f"style-src 'self' 'unsafe-inline' {resources}",
            f"connect-src 'self' {told('connectDomains')}",
            f"img-src 'self' data: {resources}",
            f"font-src 'self' {resources}",
            f"frame-src {told('frameDomains', chr(39) + 'none' + chr(39))}",
            "object-src 'none'",
            f"base-uri {told('baseUriDomains', chr(39) + 'self' + chr(39))}",
        ]
    )


def host_script(require: Require) -> str:
    """The host's script with the packages that it is made of, bundled once for each version of them."""
    sources = [HERE / name for name in ("deno.json", "deno.lock", "host.js")]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    made = CACHE / f"app-host-{digest}.js"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        deno = Path(sysconfig.get_path("scripts"), "deno")
        command = [
            deno,
            "bundle",
            "--quiet",
            "--frozen-lockfile",
            "--platform",
            "browser",
            "--format",
            "iife",
        ]
        done = subprocess.run(
            [*command, "--config", HERE / "deno.json", HERE / "host.js"],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        require("the npm packages of a host of apps", done.returncode == 0, done.stderr[-500:])
        made.write_text(done.stdout)
    return made.read_text()
