"""What people do in notebooks works inside the sandbox, in every tier; what a tier loses, it is documented to lose."""

from __future__ import annotations

import functools
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conftest import Require
from tests.support.sandbox.programs import RUN_TIMEOUT_S, require_other_python, run_program

OTHER = "nobody" if os.getuid() == 0 else "me"
Place = tuple[str, str, str]
Outcomes = Callable[[Place], dict[str, Any]]
PLACES: tuple[Place, ...] = (
    ("me", "B", "fork"),
    (OTHER, "C", "fork"),
    (OTHER, "B", "spawn"),
    ("me", "C", "spawn"),
)
"""Users, tiers and launchers: each of them, but not all of their combinations, since libraries take their time. The first
two stand for the others.
"""
REPRESENTATIVES = 2

WORKS = {
    "files": "open('a.txt', 'w').write('x'); assert open('a.txt').read() == 'x'",
    "directories": "import os, shutil; os.makedirs('d/e'); os.rename('d', 'f'); shutil.rmtree('f')",
    "temporary files": "import tempfile\nwith tempfile.NamedTemporaryFile() as f: f.write(b'x')",
    "subprocess": "import subprocess; assert subprocess.run(['echo', 'hi'], capture_output=True).stdout == b'hi\\n'",
    "a Python of one's own": "import subprocess, sys; assert subprocess.check_output([sys.executable, '-c', 'print(1)']) == b'1\\n'",
    "shell": "out = !echo hi\nassert out == ['hi']",
    "commands": "!echo there > there.txt; exit 3\nassert _exit_code == 3 and open('there.txt').read() == 'there\\n'\n%pip install numpy\n!python -m pip install -q numpy\nassert _exit_code == 0",
    "pools": "import multiprocessing as m\nwith m.get_context('fork').Pool(2) as p: assert p.map(abs, [-1, -2]) == [1, 2]",
    "queues": "import multiprocessing as m\nq = m.get_context('fork').Queue(); q.put(1); assert q.get() == 1; q.close(); q.join_thread()",
    "shared memory": "from multiprocessing.shared_memory import SharedMemory as S\ns = S(create=True, size=1000); s.buf[0] = 1; s.close(); s.unlink()",
    "process pools": "from concurrent.futures import ProcessPoolExecutor as P\nwith P(2) as p: assert list(p.map(abs, [-1])) == [1]",
    "a process and a pipe": "import multiprocessing as m\na, b = m.Pipe(); p = m.get_context('fork').Process(target=b.send, args=(1,)); p.start(); assert a.recv() == 1; p.join()",
    "sqlite": "import sqlite3; c = sqlite3.connect('d.db'); c.execute('create table t (x)'); c.execute('insert into t values (1)'); c.commit(); assert c.execute('select x from t').fetchall() == [(1,)]; c.close()",
    "threads": "from concurrent.futures import ThreadPoolExecutor as T\nwith T(8) as t: assert list(t.map(abs, range(-9, 0))) == list(range(9, 0, -1))",
    "asyncio": "import asyncio; assert await asyncio.gather(*(asyncio.sleep(0.01, n) for n in range(3))) == [0, 1, 2]",
    "asyncio and a process": "import asyncio\np = await asyncio.create_subprocess_exec('echo', 'hi', stdout=-1)\nassert (await p.communicate())[0] == b'hi\\n'",
    "local sockets": "import socket\ns = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()).close(); s.close()",
    "copying": "import shutil; open('b.txt', 'w').close(); shutil.copy2('b.txt', 'c.txt')",
    "pandas": "import pandas as pd; pd.DataFrame({'x': [1, 2]}).to_csv('x.csv'); assert len(pd.read_csv('x.csv')) == 2",
    "matplotlib": "import os, matplotlib; matplotlib.use('agg')\nimport matplotlib.pyplot as plt; plt.plot([1, 2]); plt.savefig('p.png'); assert os.path.getsize('p.png')",
    "scipy": "import scipy.linalg, numpy; scipy.linalg.inv(numpy.eye(500))",
    "scikit-learn": "from sklearn.linear_model import LinearRegression as L; L().fit([[1], [2]], [1, 2])",
    "scikit-learn in parallel": "from sklearn.ensemble import RandomForestClassifier as R\nassert R(20, n_jobs=2).fit([[0], [1]] * 20, [0, 1] * 20).predict([[1]]) == [1]",
}
LOST_IN_C = {"pools", "queues", "shared memory", "process pools", "local sockets"}
"""What tier C says that it loses (``cellwright.sandbox.tiers``)."""
FORKED = {"commands"}
"""What only a kernel of ours does: another Python kernel wants a terminal for it, and there is none in a sandbox."""
REPEATED = {"scipy", "scikit-learn"}
"""What the last of them does, too, and takes a second to import."""


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Outcomes:
    """What came of all the selected codes at a place: they share a session."""
    wanted: dict[Place, dict[str, str]] = defaultdict(dict)
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.path == request.path and hasattr(item, "callspec"):
            name = item.callspec.params["name"]
            wanted[item.callspec.params["place"]][name] = WORKS[name]

    @functools.cache
    def found(place: Place) -> dict[str, Any]:
        user, tier, launcher = place
        return run_program(user, tier, {"launcher": launcher, "codes": wanted[place]})

    return found


def _trials() -> Iterator[Any]:
    for turn, name in enumerate(WORKS):
        for number, place in enumerate(PLACES[:REPRESENTATIVES] if name in FORKED else PLACES):
            # What one tier loses is looked at in both.
            chosen = number == turn % REPRESENTATIVES or (
                number < REPRESENTATIVES and name in LOST_IN_C | FORKED
            )
            marks = () if chosen and name not in REPEATED else pytest.mark.matrix
            yield pytest.param(name, place, id=f"{name}-{'-'.join(place)}", marks=marks)


@pytest.mark.timeout(RUN_TIMEOUT_S)
@pytest.mark.parametrize(("name", "place"), list(_trials()))
def test_it_works_inside(name: str, place: Place, require: Require, outcomes: Outcomes) -> None:
    user, tier, _ = place
    require_other_python(user, tier, require)
    found = outcomes(place)
    assert found["tier"] == tier or (tier == "B" and found["tier"] == "A")
    lost = tier == "C" and name in LOST_IN_C
    assert found[name]["ok"] is not lost, found[name]


@pytest.mark.matrix  # `kernels/test_typecheck_runs` has it
def test_deno_says_why_it_does_not_start_without_a_network_of_its_own(require: Require) -> None:
    require_other_python(OTHER, "C", require)
    with pytest.raises(pytest.fail.Exception, match="needs a network of its own to listen on"):
        run_program(OTHER, "C", {"launcher": "deno", "codes": {"one": "1"}})
