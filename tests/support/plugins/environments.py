"""An environment of its own that has Cellwright, for plugins to be installed into and removed from."""

from __future__ import annotations

import json
import subprocess
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.system.daemon.conftest import Place, Pump, place_in
from tests.waiting import LIMIT_S

ROOT = Path(__file__).parents[3]


@dataclass
class PluginPlace:
    """A user's place whose commands and daemon are those of such an environment."""

    place: Place
    python: Path

    @property
    def packages(self) -> Path:
        return next((self.python.parents[1] / "lib").glob("python3*")) / "site-packages"

    @property
    def _command(self) -> list[str]:
        return [str(self.python), "-c", "from cellwright.cli import main; main()"]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: PLW1510  # what it ended with is the test's to judge
            [*self._command, *arguments],
            cwd=self.place.root / "work",
            env=self.place.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )

    def data(self, *arguments: str) -> Any:
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def listed(self) -> dict[str, dict[str, Any]]:
        """What ``cellwright plugins`` says of others' plugins, by distribution and id."""
        found = self.data("plugins")["plugins"]
        return {
            f"{one['distribution']}/{one['plugin']}": one
            for one in found
            if one["distribution"] != "cellwright"
        }

    def client(self, *arguments: str) -> Pump:
        process = subprocess.Popen(
            [*self._command, "mcp", *arguments],
            cwd=self.place.root / "work",
            env=self.place.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.place.started.append(process)
        client = Pump(process)
        client.initialize()
        return client

    def add(self, distribution: str, entry_points: dict[str, str], source: str) -> None:
        """Lay a module and its distribution's record into the environment, as an installer does."""
        info = self.packages / f"{distribution}-1.0.dist-info"
        info.mkdir()
        (self.packages / f"{distribution}.py").write_text(source)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (info / "RECORD").write_text(f"{distribution}.py,,\n{hash(source)},,\n")
        lines = [f"[cellwright.{group}]\n{entry}\n" for group, entry in entry_points.items()]
        (info / "entry_points.txt").write_text("".join(lines))


@contextmanager
def plugin_place(root: Path, **variables: str) -> Iterator[PluginPlace]:
    venv.create(root / "environment", symlinks=True)
    python = root / "environment" / "bin" / "python"
    with place_in(root, **variables) as place:
        made = PluginPlace(place, python)
        # What Cellwright needs, and Cellwright itself, which is a pointer to its source there.
        ours = [sysconfig.get_path("purelib"), str(ROOT / "src")]
        (made.packages / "cellwright-below.pth").write_text("".join(f"{path}\n" for path in ours))
        place.environment["XDG_CACHE_HOME"] = str(root / "cache")
        place.environment.pop("VIRTUAL_ENV", None)
        yield made
