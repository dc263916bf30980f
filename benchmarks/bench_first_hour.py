"""The first hour: commands and seconds from a wheel, in a home that never saw it, to the first result on each way in.

A person has uv, an agent's command line, a browser, and nothing of ours; uv's cache is warm. Claude Code and Codex come
from npm and have their default settings; only the model is a script on this machine. Timed is each command up to its end
and the browser up to the output. Three ways: a notebook that an agent runs, a cell on the page, a question to the data
agent. Needs the npm registry once, and a Chromium.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import psutil
from playwright.sync_api import expect, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from measuring import Bench, main  # noqa: E402
from tests.support.browsers import launch_options  # noqa: E402
from tests.support.clients.installing import (  # noqa: E402
    CLAUDE_CODE,
    CODEX,
    Program,
    find_node,
    install,
)
from tests.support.clients.scripted import Call, Say, ScriptedModel  # noqa: E402

COMMANDS_AT_MOST = 2
SECONDS_AT_MOST = 60.0
LIMIT_S = 600.0
SUM = "print(20 + 22)"
SESSION = re.compile(r"\bsession(?:_id)?\W+([\w.-]*\w)")
SCRIPT: Sequence[Call | Say] = (
    Call("notebook_create", {"name": "first"}),
    Call("cell_add_and_run", lambda seen: {"session_id": _found(SESSION, seen[0].text), "content": SUM}),
    Say("It is 42."),
)


@dataclass
class Newcomer:
    """A person at a shell, with a home of their own; counts what they type and how long it takes."""

    home: Path
    wheels: Path
    more: Mapping[str, str] = field(default_factory=dict)
    path: Sequence[Path] = ()
    typed: list[str] = field(default_factory=list)
    seconds: float = 0.0
    processor_s: float = 0.0

    def __post_init__(self) -> None:
        (self.home / "work").mkdir(parents=True)
        tools = self.home / "tools"
        tools.mkdir()
        for tool in ("uv", "uvx"):
            (tools / tool).symlink_to(Path(sys.executable).with_name(tool))

    def type(self, command: str) -> str:
        """Run a command line to its end; what it printed."""
        self.typed.append(command)
        began, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        printed = self.quietly(command)
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.seconds += time.monotonic() - began
        self.processor_s += now.ru_utime - used.ru_utime + now.ru_stime - used.ru_stime
        return printed

    def quietly(self, command: str) -> str:
        """The same, uncounted."""
        # Files, not pipes: a daemon that stays may hold them open.
        said = [self.home / "stdout", self.home / "stderr"]
        with said[0].open("wb") as stdout, said[1].open("wb") as stderr:
            done = subprocess.run(
                ["/bin/bash", "-c", command],
                cwd=self.home / "work",
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                timeout=LIMIT_S,
                check=False,
            )
        if done.returncode:
            raise RuntimeError(f"`{command}` failed: {said[0].read_text()}{said[1].read_text()}")
        return said[0].read_text()

    def leave(self) -> None:
        """Add up what all this took, and end what the commands left running."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("HOME") == str(self.home):
                    times = process.cpu_times()
                    self.processor_s += (
                        times.user + times.system + times.children_user + times.children_system
                    )
        self.quietly("uvx cellwright daemon stop --kernels")

    def _environment(self) -> dict[str, str]:
        # Where packages come from, and where they are kept, belongs to the machine.
        kept = {name: value for name, value in os.environ.items() if name.startswith(("UV_", "PIP_", "SSL_"))}
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "uv"
        path = [self.home / "tools", self.home / ".local" / "bin", *self.path]
        return {
            "UV_CACHE_DIR": str(cache),
            **kept,
            "UV_FIND_LINKS": str(self.wheels),
            "UV_CONSTRAINT": str(ROOT / "requirements" / "dev.txt"),
            "UV_PYTHON": sys.executable,
            "HOME": str(self.home),
            "PATH": os.pathsep.join([*map(str, path), os.defpath]),
            "LANG": "C.UTF-8",
            "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
            **self.more,
        }


@dataclass(frozen=True)
class Agent:
    """A client as it comes, its model aside."""

    name: str
    program: Program
    command: str
    environment: Callable[[str], Mapping[str, str]]
    settings: Callable[[str], tuple[str, str] | None]
    """A file below the home in which its person has said which model to use, and its content."""


def _codex_settings(url: str) -> tuple[str, str]:
    return ".codex/config.toml", (
        'model = "scripted"\nmodel_provider = "scripted"\n\n[model_providers.scripted]\nname = "scripted"\n'
        f'base_url = "{url}/v1"\nwire_api = "responses"\nenv_key = "SCRIPTED_KEY"\n'
    )


AGENTS = (
    Agent(
        "claude-code",
        CLAUDE_CODE,
        # What a person answers when Claude Code first asks for the server.
        "claude -p 'Add two numbers in a notebook.' --allowedTools mcp__cellwright",
        lambda url: {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none"},
        lambda _: None,
    ),
    Agent(
        "codex",
        CODEX,
        "codex exec --skip-git-repo-check 'Add two numbers in a notebook.'",
        lambda _: {"SCRIPTED_KEY": "none"},
        _codex_settings,
    ),
)


def first_notebook_by(agent: Agent, homes: Path, wheels: Path) -> Newcomer:
    node = find_node()
    if node is None:
        raise RuntimeError("There is no Node: make bench installs one")
    installed = install(agent.program, node)
    with ScriptedModel(SCRIPT) as model:
        # All that is not on this machine is refused.
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), model.url)
        loopback = {"NO_PROXY": "127.0.0.1,localhost,::1", "no_proxy": "127.0.0.1,localhost,::1"}
        person = Newcomer(
            homes / agent.name,
            wheels,
            agent.environment(model.url),
            [installed.command.parent, node.executable.parent],
        )
        if (settings := agent.settings(model.url)) is not None:
            file = person.home / settings[0]
            file.parent.mkdir()
            file.write_text(settings[1])
        with leaving(person):
            person.type(f"uvx cellwright install {agent.name}")
            person.more = {**person.more, **proxies, **loopback}
            answered = person.type(agent.command)
        if model.problems or "It is 42." not in answered or "\n42" not in model.seen[-1].text:
            raise RuntimeError(f"{agent.name}: {model.problems} {answered} {model.seen}")
    return person


def first_cell_on_the_page(homes: Path, wheels: Path) -> Newcomer:
    person = Newcomer(homes / "page", wheels)
    with leaving(person), sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launch_options(_required))
        link = person.type("uvx 'cellwright[web,data]' ui").strip()
        began = time.monotonic()
        page = browser.new_page()
        page.set_default_timeout(LIMIT_S * 1_000)
        page.goto(link)
        page.locator("summary", has_text="New notebook").click()
        page.get_by_role("button", name="Create").click()
        page.locator("article.cell.code").click()
        page.keyboard.type(SUM)
        page.keyboard.press("Shift+Enter")
        expect(page.get_by_text("42", exact=True)).to_be_visible(timeout=LIMIT_S * 1_000)
        person.seconds += time.monotonic() - began
        browser.close()
    return person


def first_question(homes: Path, wheels: Path) -> Newcomer:
    person = Newcomer(homes / "ask", wheels)
    with leaving(person):
        person.type("uv tool install 'cellwright[all]'")
        answered = person.type("cellwright demo --agent")
    if "North sold the most units" not in answered:
        raise RuntimeError(answered)
    return person


@contextmanager
def leaving(person: Newcomer) -> Iterator[None]:
    try:
        yield
    finally:
        person.leave()


def _required(what: str, there: bool, hint: str) -> None:
    if not there:
        raise RuntimeError(f"{what} is missing: {hint}")


def _found(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    if match is None:
        raise RuntimeError(f"{pattern.pattern} is not in {text!r}")
    return match[1]


async def measure(bench: Bench) -> None:
    await anyio.to_thread.run_sync(_measure, bench)


def _measure(bench: Bench) -> None:
    wheels = bench.directory / "wheels"
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    homes = bench.directory / "homes"
    Newcomer(homes / "warm", wheels).quietly("uv tool install 'cellwright[all]'")
    ways: dict[str, Callable[[], Newcomer]] = {
        f"first notebook run by {agent.name}": lambda agent=agent: first_notebook_by(agent, homes, wheels)
        for agent in AGENTS
    }
    ways["first cell run on the page"] = lambda: first_cell_on_the_page(homes, wheels)
    ways["first question, scripted model"] = lambda: first_question(homes, wheels)
    for what, go in ways.items():
        load = os.getloadavg()[0]
        person = go()
        passed = len(person.typed) <= COMMANDS_AT_MOST and person.seconds <= SECONDS_AT_MOST
        bench.claim(
            f"{what}, {len(person.typed)} commands (load {load:.0f} on {os.cpu_count()} cores)",
            f"{person.seconds:.1f} s ({person.processor_s:.0f} s of processor)",
            target=f"<= {COMMANDS_AT_MOST} commands, {SECONDS_AT_MOST:.0f} s",
            passed=passed,
        )


if __name__ == "__main__":
    main(measure, __doc__)
