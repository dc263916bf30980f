"""A Jupyter server as a batch job, and its kernels over WebSocket: how jlab-mcp works on a cluster.

Written anew after what that program does: ``sbatch`` a script that runs ``jupyter lab``, ask ``squeue`` until it runs,
wait for the file that tells where it listens, ask its status until it answers, ``POST`` a kernel, and speak JSON with it
over one WebSocket. A cell is put into the notebook's file, run, and put there again with what it said. How long it
pauses between questions is a ``Pace``: its own, or none to speak of. Measures nothing.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import requests
import websocket
from nbformat.v4 import new_code_cell, new_notebook, new_output

__all__ = ["AS_IT_IS", "EAGER", "Pace", "RemoteKernel", "ServerJob", "servers_environment"]

_ROOT = Path(__file__).resolve().parents[1]
_SERVERS = _ROOT / ".venv" / "servers"
_LIMIT_S = 120.0
_ANSWER_S = 30.0
# Extensions that our tests' servers have, and such a server has not.
_FOREIGN = ("jupyter_server_ydoc", "jupyter_server_fileid")
_SCRIPT = """\
#!/bin/bash
export PATH="{servers}/bin:$PATH" HOME="{home}" JUPYTER_CONFIG_DIR="{home}/config" JUPYTER_TOKEN="{token}"
umask 077
echo "HOSTNAME=$(hostname)" > "{where}"
echo "PORT={port}" >> "{where}"
exec jupyter lab --no-browser --allow-root --ip=0.0.0.0 --port={port} --ServerApp.port_retries=0 \\
    --ServerApp.disable_check_xsrf=True --ServerApp.allow_remote_access=True --notebook-dir="{home}"
"""


def servers_environment() -> Path:
    """The environment that has JupyterLab, made where it is not there."""
    if not (_SERVERS / "bin" / "jupyter-lab").exists():
        subprocess.run(["make", ".venv/.stamp-servers"], cwd=_ROOT, check=True)  # the project's own
    return _SERVERS


@dataclass(frozen=True, slots=True)
class Pace:
    """How long it pauses before it asks again."""

    queue_s: float
    file_s: float
    status_s: float
    settle_s: float
    """How long a kernel that was just started is left alone."""


AS_IT_IS = Pace(queue_s=3, file_s=2, status_s=3, settle_s=2)
EAGER = Pace(queue_s=0.05, file_s=0.05, status_s=0.05, settle_s=0)


@dataclass(frozen=True, slots=True)
class ServerJob:
    """A server that answers, in a job of its own."""

    job_id: str
    url: str
    token: str
    home: Path

    @classmethod
    def start(cls, home: Path, pace: Pace, options: list[str], address: Callable[[str], str]) -> ServerJob:
        """Submit it and wait until it answers; ``address`` says where a node is reached."""
        (home / "config").mkdir(parents=True)
        off = {"ServerApp": {"jpserver_extensions": dict.fromkeys(_FOREIGN, False)}}
        (home / "config" / "jupyter_server_config.json").write_text(json.dumps(off))
        token, where = secrets.token_hex(24), home / "where"
        script = _SCRIPT.format(
            servers=servers_environment(), home=home, token=token, where=where, port=_free_port()
        )
        output = ["--output", str(home / "log")]
        job_id = _slurm("sbatch", "--parsable", *output, *options, stdin=script).strip()
        try:
            with _pausing(pace.queue_s) as again:
                while not _slurm("squeue", "-h", "-j", job_id, "-o", "%T %N").startswith("RUNNING"):
                    again()
            with _pausing(pace.file_s) as again:
                while not (where.exists() and "PORT=" in where.read_text()):
                    again()
            told = dict(line.split("=", 1) for line in where.read_text().split())
            server = cls(job_id, f"http://{address(told['HOSTNAME'])}:{told['PORT']}", token, home)
            with _pausing(pace.status_s) as again:
                while not server._answers():
                    again()
        except BaseException:
            _slurm("scancel", job_id)
            raise
        return server

    def start_kernel(self, pace: Pace) -> RemoteKernel:
        """A kernel that has answered, with a notebook of its own."""
        kernel_id = self._ask("POST", "/api/kernels", {"name": "python3"})["id"]
        time.sleep(pace.settle_s)
        channels = f"{self.url.replace('http', 'ws', 1)}/api/kernels/{kernel_id}/channels?token={self.token}"
        line = websocket.create_connection(channels, timeout=_ANSWER_S)
        kernel = RemoteKernel(line, self.home / f"{kernel_id}.ipynb", lambda: self._end(kernel_id))
        kernel.greet()
        nbformat.write(new_notebook(), kernel.notebook)
        return kernel

    def cancel(self) -> None:
        _slurm("scancel", self.job_id)

    def _end(self, kernel_id: str) -> None:
        self._ask("DELETE", f"/api/kernels/{kernel_id}")

    def _answers(self) -> bool:
        with suppress(requests.ConnectionError, requests.HTTPError):
            self._ask("GET", "/api/status")
            return True
        return False

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        headers = {"Authorization": f"token {self.token}"}
        answer = requests.request(method, self.url + path, headers=headers, json=body, timeout=_ANSWER_S)
        answer.raise_for_status()
        return answer.json() if answer.content else None


@dataclass(frozen=True, slots=True)
class RemoteKernel:
    """One kernel, over one lasting WebSocket."""

    line: websocket.WebSocket
    notebook: Path
    end: Callable[[], None]
    """Shuts the kernel down; its line is the caller's to close first (see ``stop``)."""

    def greet(self) -> None:
        """Ask until it answers: what is sent before its channels stand is dropped."""
        self.line.settimeout(0.5)
        with _pausing(0) as again:
            while True:
                asked = self._send("kernel_info_request", {})
                with suppress(websocket.WebSocketTimeoutException):
                    self._until(asked, "kernel_info_reply")
                    break
                again()
        self.line.settimeout(_ANSWER_S)

    def run_cell(self, code: str) -> str:
        """Put a cell into the notebook, run it, and put its outputs there too."""
        document = nbformat.read(self.notebook, as_version=4)
        document.cells.append(new_code_cell(code))
        nbformat.write(document, self.notebook)
        text = self.run(code)
        document = nbformat.read(self.notebook, as_version=4)
        document.cells[-1].outputs = [new_output("execute_result", {"text/plain": text}, execution_count=1)]
        nbformat.write(document, self.notebook)
        return text

    def run(self, code: str) -> str:
        """Run code and nothing else."""
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": True,
        }
        outputs = self._until(self._send("execute_request", content), "idle")
        return "".join(output["data"]["text/plain"] for output in outputs if "data" in output)

    def stop(self) -> None:
        self.line.close()
        self.end()

    def _send(self, kind: str, content: dict[str, Any]) -> str:
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": kind,
            "username": "",
            "session": "s",
            "version": "5.3",
        }
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "buffers": []}
        self.line.send(json.dumps(message | {"channel": "shell"}))
        return header["msg_id"]

    def _until(self, asked: str, end: str) -> list[dict[str, Any]]:
        """What comes in answer, up to a kind of message or a state."""
        heard: list[dict[str, Any]] = []
        while True:
            message = json.loads(self.line.recv())
            if message["parent_header"].get("msg_id") != asked:
                continue
            content = message["content"]
            if end in (message["header"]["msg_type"], content.get("execution_state")):
                return heard
            heard.append(content)


@contextmanager
def _pausing(pause_s: float) -> Iterator[Callable[[], None]]:
    deadline = time.monotonic() + _LIMIT_S

    def again() -> None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"No answer within {_LIMIT_S:g} s")
        time.sleep(pause_s)

    yield again


def _slurm(*command: str, stdin: str = "") -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=_ANSWER_S, check=True, env=environment
    ).stdout


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("", 0))
        port: int = asked.getsockname()[1]
        return port
