"""The test cluster itself: what it promises to the tests that stand on it."""

from __future__ import annotations

from pathlib import Path

import anyio

from tests.marked import marked
from tests.support.slurm.cluster import MARK, Cluster, _cgroups_of
from tests.support.slurm.layout import SLURMD_PORT
from tests.waiting import until


def test_each_node_has_a_name_and_a_network_of_its_own(cluster: Cluster) -> None:
    seen = cluster.run("srun", "-N3", "-l", "sh", "-c", "hostname; hostname -I").stdout

    for number, node in enumerate(cluster.nodes):
        assert f"{number}: {node}" in seen
        assert cluster.layout.address(node) in seen


def test_a_step_over_its_memory_ends_alone(mended: Cluster) -> None:
    greedy = "python3 -c 'x = bytearray(400 * 2**20); print(len(x))'"
    job = mended.submit(
        f'srun --overlap --exact -n1 --mem=100 sh -c "exec {greedy}"; echo "ended with $?"; echo others go on',
        "--mem=1000",
    )
    mended.wait_for_state(job, "COMPLETED", "FAILED", "OUT_OF_MEMORY")

    told = (mended.layout.directory / "scratch" / f"job-{job}.out").read_text()
    assert "ended with 0" not in told
    assert "others go on" in told


def test_high_preempts_main(mended: Cluster) -> None:
    asked = ("--nodes=3", "--exclusive", "--no-requeue")
    low = mended.submit("sleep 600", *asked)
    mended.wait_for_state(low, "RUNNING")
    high = mended.submit("true", *asked, "--partition=high")

    assert mended.wait_for_state(low, "PREEMPTED")["JobState"] == "PREEMPTED"
    mended.wait_for_state(high, "COMPLETED")


def test_ordinary_user_has_jobs_that_run_as_that_user(mended: Cluster) -> None:
    job = mended.submit("id -u", as_user=True)
    mended.wait_for_state(job, "COMPLETED")

    told = (mended.layout.directory / "scratch" / f"job-{job}.out").read_text()
    assert told.strip() == str(mended.user.pw_uid)


def test_cut_node_is_out_of_reach_until_healed(mended: Cluster) -> None:
    node = mended.nodes[1]
    mended.cut(node)
    hello = f"exec 3<>/dev/tcp/{mended.layout.address(node)}/{SLURMD_PORT}"
    gone = mended.run("timeout", "2", "bash", "-c", hello, check=False)
    mended.heal(node)

    assert gone.returncode != 0
    assert mended.run("timeout", "50", "bash", "-c", hello).returncode == 0
    assert mended.run("srun", "-w", node, "hostname").stdout.strip() == node


def test_work_goes_on_while_slurmd_and_controller_are_away(mended: Cluster, tmp_path: Path) -> None:
    node = mended.nodes[2]
    begun, release = tmp_path / "begun", tmp_path / "release"
    job = mended.submit(f"touch {begun}; while [ ! -e {release} ]; do sleep 0.1; done", "-w", node)
    # SLURM calls it running before its node has begun with it.
    anyio.run(until, begun.exists)

    mended.kill_slurmd(node)
    mended.restart_controller()
    mended.start_slurmd(node)
    release.touch()

    assert mended.wait_for_state(job, "COMPLETED")["ExitCode"] == "0:0"


def test_two_clusters_stand_side_by_side_and_leave_nothing(cluster: Cluster) -> None:
    second = Cluster()
    try:
        second.up()
        assert not set(second.nodes) & set(cluster.nodes)
        second.submit("sleep 600", "--nodes=3")
        assert cluster.run("squeue", "--noheader").stdout == ""
    finally:
        second.down()

    assert not second.layout.directory.exists()
    assert not list(marked(MARK, str(second.layout.directory)))
    assert not [path for node in second.nodes for path in _cgroups_of(node)]
    left = cluster.run("ip", "-brief", "link").stdout
    assert second.layout.bridge not in left
