"""Events on their way out, after the journal has them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from glideslope.model.event import Recorded


class Bus(Protocol):
    """Fan-out of recorded events to whoever listens now."""

    def publish(self, recorded: Recorded) -> None:
        """Hands an already journaled event to every subscriber; never blocks."""
        ...

    def subscribe(self, *, after: int | None = None) -> AbstractAsyncContextManager[AsyncIterator[Recorded]]:
        """Opens a subscription without gap or repetition, however slow its reader.

        Args:
            after: Recorded events above this number come first; None: only what is yet to come.

        Raises:
            InvalidInput: No event of that number was ever recorded.
        """
        ...
