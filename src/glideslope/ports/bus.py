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

    def subscribe(self) -> AbstractAsyncContextManager[AsyncIterator[Recorded]]:
        """Opens a subscription that sees everything published from now on."""
        ...
