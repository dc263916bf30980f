"""Code sees of the environment what is harmless and what the operator passes, and never what an earlier one passed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kernel.engine.conftest import end_host, open_at
from tests.waiting import UNHURRIED

pytestmark = pytest.mark.anyio

LOOK = """import os
print(os.environ.get('SHOWN'), os.environ.get('AWS_SECRET_ACCESS_KEY'), os.environ.get('OMP_NUM_THREADS'))
print(b'hidden' in open('/proc/self/environ', 'rb').read())"""


async def test_a_variable_is_seen_only_while_the_operator_passes_it_and_threads_follow_the_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("SHOWN", "yes")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.setenv("PYTHON_REPOSITORY_PASSWORD", "hidden")
    seen = []
    for passed in (["SHOWN"], []):  # the second engine finds the host, and the fork server, of the first
        async with open_at(tmp_path, pass_environment=passed, max_session_cpus=1, **UNHURRIED) as engine:
            session = await engine.create("environment", mode="private")
            seen.append((await (await session.execute_code(LOOK)).wait()).text)
    end_host(tmp_path / "state")
    threads = "1" if len(os.sched_getaffinity(0)) > 1 else "None"
    assert seen == [f"yes None {threads}\nFalse\n", f"None None {threads}\nFalse\n"]
