"""What an allocation may be asked to be."""

from __future__ import annotations

import pytest

from cellwright.errors import ShapeRefused
from cellwright.slurm._shapes import Shape, seconds_of, shape_arguments, warning_s


def test_what_is_not_said_is_left_to_the_site() -> None:
    assert shape_arguments(Shape()) == []


def test_everything_said_becomes_an_argument() -> None:
    shape = Shape(
        partition="gpu",
        gres="gpu:a100:2",
        cpus=8,
        memory="32GB",
        time="1-12:00:00",
        account="proj_7",
        qos="long",
        constraint="a100&nvlink",
        modules=("cuda/12.6",),
        extra=("--reservation=course", "--exclusive"),
    )
    assert shape_arguments(shape) == [
        "--partition=gpu",
        "--gres=gpu:a100:2",
        "--cpus-per-task=8",
        "--mem=32G",
        "--time=1-12:00:00",
        "--account=proj_7",
        "--qos=long",
        "--constraint=a100&nvlink",
        "--reservation=course",
        "--exclusive",
    ]


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("30", 1_800),
        ("30:15", 1_815),
        ("4:00:00", 14_400),
        ("1-2", 93_600),
        ("1-2:30", 95_400),
        ("1-02:30:05", 95_405),
        ("UNLIMITED", None),
        (None, None),
    ],
)
def test_time_is_read_as_slurm_reads_it(time: str | None, seconds: int | None) -> None:
    assert seconds_of(time) == seconds


@pytest.mark.parametrize("time", ["", "0", "four hours", "1:2:3:4", "-5", "1-", "2h", "٣"])
def test_what_is_no_time_is_refused(time: str) -> None:
    with pytest.raises(ShapeRefused, match="time limit"):
        Shape(time=time)


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({"partition": "a b"}, "partition"),
        ({"partition": "--wrap=x"}, "partition"),
        ({"gres": "gpu:1;rm"}, "gres"),
        ({"cpus": 0}, "cpus"),
        ({"memory": "lots"}, "mem"),
        ({"account": "a\nb"}, "account"),
        ({"qos": "$(id)"}, "qos"),
        ({"constraint": "a b"}, "constraint"),
        ({"modules": ("/srv/evil",)}, "module"),
        ({"modules": ("cuda/../../evil",)}, "module"),
        ({"modules": ("cuda; id",)}, "module"),
        ({"extra": ("-N2",)}, "slurm_extra"),
        ({"extra": ("--wrap=id",)}, "--wrap"),
        ({"extra": ("--export=ALL",)}, "--export"),
        ({"extra": ("--comment=a\nb",)}, "long option"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_by_its_name(said: dict[str, object], named: str) -> None:
    with pytest.raises(ShapeRefused) as refusal:
        Shape(**said)  # type: ignore[arg-type]
    assert named in str(refusal.value)
    assert refusal.value.hint


def test_more_than_one_node_is_refused_with_the_way_out() -> None:
    with pytest.raises(ShapeRefused, match=r"1 node, not 2.*Start more allocations instead"):
        Shape(nodes=2)


@pytest.mark.parametrize(
    ("time", "warned"), [("4:00:00", 300), (None, 300), ("20", 300), ("10", 150), ("1", 15), ("0:10", 15)]
)
def test_short_allocation_is_warned_in_its_last_quarter(time: str | None, warned: int) -> None:
    assert warning_s(300, time) == warned
