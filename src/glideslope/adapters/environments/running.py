"""The commands an environment is running, so that stopping it ends them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from glideslope.errors import EnvironmentBroken
from glideslope.ports.environment import ExecWatch


class Running:
    """Counts execs in and out; after `stop` none is let in."""

    def __init__(self) -> None:
        self._watches: set[ExecWatch] = set()
        self._stopped = False
        self._empty = anyio.Event()
        self._empty.set()

    @asynccontextmanager
    async def one(self, watch: ExecWatch | None) -> AsyncIterator[ExecWatch]:
        """Holds one exec.

        Raises:
            EnvironmentBroken: The environment has been stopped.
        """
        if self._stopped:
            raise EnvironmentBroken("the environment has been stopped: open a new one")
        held = watch or ExecWatch()
        if not self._watches:
            self._empty = anyio.Event()
        self._watches.add(held)
        try:
            yield held
        finally:
            self._watches.discard(held)
            if not self._watches:
                self._empty.set()

    async def stop(self) -> None:
        """Cancels every exec and waits until their processes are gone."""
        self._stopped = True
        for watch in list(self._watches):
            watch.cancel("the environment was stopped")
        await self._empty.wait()
