"""Fan-out of journaled events to those who listen, at the speed of each.

There is no queue per subscriber. The bus keeps the newest events in one bounded window; a
subscriber carries the number of the last event it saw and takes the next from the window, or from
the journal where the window has moved on. So nobody can fill the memory, miss an event, see one
twice, or slow down the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from glideslope.errors import InvalidInput
from glideslope.model.event import Recorded
from glideslope.ports.journal import Journal

WINDOW = 1024
PAGE = 256  # events read from the journal at a time, about 10 ms of work


class JournalBus:
    """Port `Bus` in front of a journal. Lives on one event loop."""

    def __init__(self, journal: Journal, *, window: int = WINDOW) -> None:
        self._journal = journal
        self._window: deque[Recorded] = deque(maxlen=window)
        self._last = journal.last_seq()
        self._news = asyncio.Event()

    def publish(self, recorded: Recorded) -> None:
        """Hands an already journaled event to every subscriber; never blocks."""
        if recorded.seq != self._last + 1:
            self._window.clear()  # out of step: the journal knows better
        else:
            self._window.append(recorded)
        self._last = max(self._last, recorded.seq)
        self._news.set()
        self._news = asyncio.Event()

    @asynccontextmanager
    async def subscribe(self, *, after: int | None = None) -> AsyncIterator[AsyncIterator[Recorded]]:
        """Opens a subscription.

        Args:
            after: Events above this number that happened already come first; None: only new ones.

        Raises:
            InvalidInput: No event of that number was ever recorded.
        """
        if after is not None and not 0 <= after <= self._last:
            text = f"the journal ends at {self._last}, nothing can follow {after}: start from 0"
            raise InvalidInput(text, field="after", value=after)
        yield _Subscription(self, self._last if after is None else after)

    async def wait_beyond(self, seen: int, *, have: bool) -> None:
        """Waits for an event above `seen` unless one is at hand; lets others work in any case."""
        if have or seen < self._last:
            await asyncio.sleep(0)
        else:
            await self._news.wait()

    def page(self, seen: int) -> list[Recorded]:
        """Some events after `seen`, in order, without a gap before them; empty when there are none."""
        if self._window and self._window[0].seq <= seen + 1:
            return [recorded for recorded in self._window if recorded.seq > seen]
        return list(self._journal.read(after=seen, limit=PAGE))


class _Subscription:
    """One reader's place. No generator: a wait that was given up must not be the end of it."""

    def __init__(self, bus: JournalBus, seen: int) -> None:
        self._bus = bus
        self._seen = seen
        self._page: deque[Recorded] = deque()

    def __aiter__(self) -> AsyncIterator[Recorded]:
        return self

    async def __anext__(self) -> Recorded:
        # Nothing is taken off the page before the last wait: a cancelled wait loses no event.
        while not self._page:
            self._page.extend(self._bus.page(self._seen))
            await self._bus.wait_beyond(self._seen, have=bool(self._page))
        recorded = self._page.popleft()
        self._seen = recorded.seq
        return recorded
