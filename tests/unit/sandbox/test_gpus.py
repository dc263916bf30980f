"""Which devices a sandbox is shown, on machines that are directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright.sandbox.gpus import NO_GPUS, find_gpus, gpu_memory, show_gpus
from cellwright.sandbox.policy import Narrowing, Policy, narrowed, sandbox_plan, watched_plan
from cellwright.settings import Settings


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Four NVIDIA GPUs, two of AMD and one of Intel."""
    for name in (
        "nvidia0",
        "nvidia1",
        "nvidia2",
        "nvidia3",
        "nvidiactl",
        "nvidia-uvm",
        "nvidia-caps/nvidia-cap1",
    ):
        add(tmp_path, f"dev/{name}")
    for number, vendor in ((128, "0x1002"), (129, "0x8086"), (130, "0x1002"), (131, "0x10de")):
        add(tmp_path, f"dev/dri/renderD{number}")
        about = tmp_path / f"sys/devices/pci{number}"
        about.mkdir(parents=True)
        (about / "vendor").write_text(f"{vendor}\n")
        node = tmp_path / f"sys/class/drm/renderD{number}"
        node.mkdir(parents=True)
        (node / "device").symlink_to(about)
    add(tmp_path, "dev/kfd")
    for number in range(4):
        told = tmp_path / f"proc/driver/nvidia/gpus/0000:0{number}:00.0/information"
        told.parent.mkdir(parents=True)
        told.write_text(f"Model:  \t H200\nGPU UUID: \t GPU-{number}{number}-f\nDevice Minor: \t {number}\n")
    (tmp_path / "dev/nvidia9").write_text("a file is no device")
    return tmp_path


def add(root: Path, name: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("/dev/null")


AMD = ("/dev/dri/renderD128", "/dev/dri/renderD130")
INTEL = ("/dev/dri/renderD129",)
JOB = {"SLURM_JOB_ID": "7"}


def nvidia(*numbers: int) -> tuple[str, ...]:
    return tuple(f"/dev/nvidia{number}" for number in numbers)


@pytest.mark.parametrize(
    ("choice", "environment", "names", "visible"),
    [
        ("auto", {}, (*nvidia(0, 1, 2, 3), *AMD, *INTEL), None),
        ("off", {}, (), None),
        ("1,3", {}, (*nvidia(1, 3), AMD[1]), "0,1"),
        ("auto", {"CUDA_VISIBLE_DEVICES": "2"}, (*nvidia(2), *AMD, *INTEL), "0"),
        ("auto", {"CUDA_VISIBLE_DEVICES": ""}, (*AMD, *INTEL), None),
        ("auto", {"CUDA_VISIBLE_DEVICES": "-1"}, (*AMD, *INTEL), None),
        ("auto", {"CUDA_VISIBLE_DEVICES": "GPU-22"}, (*nvidia(2), *AMD, *INTEL), "GPU-22"),
        ("auto", JOB, (), None),
        # SLURM numbers what libraries see from 0 where devices are held to the job, and the machine's where not.
        ("auto", JOB | {"SLURM_STEP_GPUS": "2", "CUDA_VISIBLE_DEVICES": "0"}, nvidia(2), "0"),
        ("auto", JOB | {"SLURM_JOB_GPUS": "1-2", "CUDA_VISIBLE_DEVICES": "1,2"}, nvidia(1, 2), "0,1"),
        ("auto", JOB | {"SLURM_JOB_GPUS": "", "CUDA_VISIBLE_DEVICES": "3"}, nvidia(3), "0"),
        ("auto", JOB | {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, (), None),
        ("0", JOB | {"SLURM_STEP_GPUS": "2"}, (), None),
        ("auto", JOB | {"ROCR_VISIBLE_DEVICES": "1"}, AMD[1:], None),
    ],
)
def test_devices_are_those_that_the_setting_and_the_job_leave(
    machine: Path, choice: str, environment: dict[str, str], names: tuple[str, ...], visible: str | None
) -> None:
    found = find_gpus(choice, environment, root=str(machine))
    if "SLURM_STEP_GPUS" in environment or "SLURM_JOB_GPUS" in environment:
        # The numbers are of one kind of device: which, SLURM does not say.
        assert tuple(name for name in found.names if name.startswith("/dev/nvidia")) == names
    else:
        assert found.names == names
    assert dict(found.environment).get("CUDA_VISIBLE_DEVICES") == visible
    shown = {at for _, at in found.devices}
    assert ("/dev/nvidiactl" in shown) == any(name.startswith("/dev/nvidia") for name in names)
    assert ("/dev/kfd" in shown) == any(name in AMD for name in found.names)
    assert all(source == str(machine / at[1:]) for source, at in found.devices)


def test_a_machine_without_any_shows_none(tmp_path: Path) -> None:
    assert find_gpus("auto", {}, root=str(tmp_path)) is NO_GPUS
    assert not find_gpus("0", {"CUDA_VISIBLE_DEVICES": "0"}, root=str(tmp_path))


def test_a_plan_has_devices_with_requests_and_nothing_else_that_can_be_written(machine: Path) -> None:
    gpus = find_gpus("2", {}, root=str(machine))
    before = sandbox_plan(Policy(), [], {})
    written = list(before["rules"]["WRITE"])
    plan = show_gpus(before, gpus)
    assert plan["rules"]["DEVICE"] == ["/dev/nvidia2", "/dev/nvidiactl", "/dev/nvidia-uvm"]
    assert plan["rules"]["REWRITE"] == ["/proc"]  # where CUDA names its threads
    assert plan["rules"]["WRITE"] == written
    assert plan["environment"]["CUDA_VISIBLE_DEVICES"] == "0"
    watched = watched_plan(Policy(), [], {}, directories={"sockets": "/s", "temporary": "/t"}, writable=[])
    assert "DEVICE" not in show_gpus(watched, gpus)["rules"]
    none = sandbox_plan(Policy(), [], {})
    assert "DEVICE" not in show_gpus(none, NO_GPUS)["rules"]


@pytest.mark.parametrize(
    ("said", "means"),
    [("auto", "auto"), ("off", "off"), ([0, 2], "0,2"), ("0, 2", "0,2"), (1, "1"), ("[3]", "3"), ([], "off")],
)
def test_the_setting_is_a_word_or_numbers(said: object, means: str) -> None:
    assert Settings(gpus=said).gpus == means  # type: ignore[arg-type]  # as people write it


def test_the_setting_refuses_what_is_neither() -> None:
    with pytest.raises(ValueError, match="gpus"):
        Settings(gpus="all")


def test_a_session_can_do_without_them() -> None:
    assert narrowed(Policy(gpus="auto"), Narrowing(gpus="off")).gpus == "off"


def test_memory_in_use_is_told_where_the_driver_does(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = machine / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho '0, NVIDIA H200, 1, 5'; echo '2, NVIDIA H200, 3, 9'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    for name, size in (("used", 7 << 20), ("total", 2000 << 20)):
        (machine / f"sys/devices/pci128/mem_info_vram_{name}").write_text(f"{size}\n")
    found = find_gpus("auto", {"CUDA_VISIBLE_DEVICES": "2"}, root=str(machine))
    assert {name: str(told) for name, told in gpu_memory(found, root=str(machine)).items()} == {
        "/dev/nvidia2": "NVIDIA H200, 3 MiB of 9 MiB in use",
        "/dev/dri/renderD128": "7 MiB of 2,000 MiB in use",
    }
