"""The part of a terminal that is redrawn while something goes on. Where stderr is no terminal there is none."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live

__all__ = ["LiveWindow"]

_REFRESH_HZ = 8


class LiveWindow:
    """A view with such a part, for as long as its block lasts."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._live: Live | None = None

    def _window(self) -> RenderableType:
        """What it shows now."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(
                console=self._console,
                get_renderable=self._window,
                refresh_per_second=_REFRESH_HZ,
                transient=True,
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
