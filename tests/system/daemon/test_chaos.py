"""Nothing acknowledged is lost or comes twice, whatever is killed, and one client's cancelling is nobody else's affair."""

from __future__ import annotations

import pytest

from tests.support.daemon.chaos import KINDS, kills


@pytest.mark.matrix
@pytest.mark.parametrize("of", KINDS)
def test_killing_a_process_again_and_again_loses_nothing_and_disconnects_nobody(of: str) -> None:
    toll = kills(of, times=10)
    assert toll.acknowledged
    assert (toll.lost, toll.doubled, toll.disconnected) == (0, 0, 0)
