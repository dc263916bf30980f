"""What a call asks for on top of the settings."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from cellwright.engine.providers import ShapeRequest
from cellwright.errors import ShapeRefused
from cellwright.settings import Settings
from cellwright.slurm._shapes import Shape
from cellwright.slurm.provider import requested_shape

SETTINGS = Settings(
    slurm_partition="gpu",
    slurm_gres="gpu:1",
    slurm_mem=32_000,
    slurm_modules="cuda/12.6 gcc",
    slurm_debug_partition="quick",
)


def test_settings_say_what_a_call_does_not() -> None:
    shape = requested_shape(SETTINGS, ShapeRequest(mem="1G", modules=("python",)))
    assert shape == Shape(
        partition="gpu", gres="gpu:1", cpus=4, memory="1G", time="4:00:00", modules=("python",)
    )


def test_debug_is_short_unless_the_call_says_how_long() -> None:
    assert requested_shape(SETTINGS, ShapeRequest(debug=True)).partition == "quick"
    assert requested_shape(SETTINGS, ShapeRequest(debug=True)).time == "30:00"
    assert requested_shape(SETTINGS, ShapeRequest(debug=True, time="5")).time == "5"
    assert requested_shape(Settings(slurm_partition="gpu"), ShapeRequest(debug=True)).partition == "gpu"


def test_what_a_call_says_is_checked() -> None:
    with pytest.raises(ShapeRefused, match="1 node"):
        requested_shape(SETTINGS, ShapeRequest(nodes=2))
    with pytest.raises(ValidationError):
        ShapeRequest(colour="red")  # type: ignore[call-arg]


@pytest.mark.parametrize("said", ["cuda/12.6 gcc", '["cuda/12.6", "gcc"]'])
def test_modules_come_as_words_or_as_json_in_a_variable(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELLWRIGHT_SLURM_MODULES", said)
    assert Settings().slurm_modules == ("cuda/12.6", "gcc")


def test_interpreter_keeps_the_name_it_is_called_by() -> None:
    assert str(Settings(slurm_python="~/venv/bin/python").slurm_python).endswith("/venv/bin/python")
