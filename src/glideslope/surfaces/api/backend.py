"""Engines as the API asks them: the daemon in threads, or one of this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol, TypeVar

import anyio.to_thread

from glideslope.engine.actions import Action, Answer
from glideslope.model.event import Recorded
from glideslope.surfaces.session import DaemonConnect, Session

T = TypeVar("T")


class Backend(Protocol):
    """An engine, here or in the daemon."""

    async def act(self, action: Action, *, tied: bool = False) -> Answer:
        """Serves one action; a tied run is cancelled when the backend closes."""
        ...

    def events(self, after: int | None, *, follow: bool) -> AsyncIterator[Recorded]:
        """What was journaled after a sequence number; None: only what is new."""
        ...


class Engine(Protocol):
    """What is needed of an engine of this process."""

    @property
    def last_seq(self) -> int:
        """The newest sequence number of the journal."""
        ...

    async def act(self, action: Action) -> Answer:
        """Serves one action."""
        ...

    def events(self, after: int) -> AsyncIterator[Recorded]:
        """Everything journaled after a sequence number, then everything new."""
        ...


class InProcessBackend:
    """An engine of this process. Every run is tied to it anyway."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def act(self, action: Action, *, tied: bool = False) -> Answer:
        """Serves one action."""
        return await self._engine.act(action)

    async def events(self, after: int | None, *, follow: bool) -> AsyncIterator[Recorded]:
        """What was journaled, up to now or for ever."""
        last = self._engine.last_seq
        first_after = last if after is None else after
        if not follow and first_after >= last:
            return
        async for recorded in self._engine.events(first_after):
            yield recorded
            if not follow and recorded.seq >= last:
                return


class DaemonBackend:
    """The daemon, over one connection a call, each in a thread that ends when the call is given up."""

    def __init__(self, connect: DaemonConnect) -> None:
        self._connect = connect
        self._held: list[Session] = []  # connections that tied runs hang on

    async def reach(self) -> None:
        """Starts the daemon where it does not run."""
        (await _in_thread(self._connect.session)).close()

    def close(self) -> None:
        """Lets go of tied runs."""
        for session in self._held:
            session.close()

    async def act(self, action: Action, *, tied: bool = False) -> Answer:
        """Asks for one action; the connection of a tied run stays open."""
        session = await _in_thread(self._connect.session)
        try:
            answer = await _in_thread(lambda: session.act(action, tied=tied))
        except BaseException:
            session.close()
            raise
        if tied:
            self._held.append(session)
        else:
            session.close()
        return answer

    async def events(self, after: int | None, *, follow: bool) -> AsyncIterator[Recorded]:
        """What was journaled, over a connection of its own."""
        session = await _in_thread(self._connect.session)
        try:
            with session.events(after=after, follow=follow) as stream:
                while (recorded := await _in_thread(lambda: next(stream, None))) is not None:
                    yield recorded
        finally:
            session.close()


async def _in_thread(work: Callable[[], T]) -> T:
    """Given up, the thread is left to itself: it ends with the connection that it waits for."""
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
