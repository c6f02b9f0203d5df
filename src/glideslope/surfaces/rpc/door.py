"""Keeps a daemon reachable, and ends one that lost what it owns.

Whoever tidies up temporary files may take the socket away, and people remove state folders. A
daemon without its socket would own the folder and answer nobody; one without its folder would
journal into files that nobody can read.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence

from glideslope.errors import StateUnavailable
from glideslope.surfaces.rpc.listener import Listener
from glideslope.surfaces.rpc.service import Service
from glideslope_fast.talk import MAX_REQUEST_BYTES

LOOK_S = 1.0
_LOGGER = logging.getLogger(__name__)

Accept = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Door:
    """The socket that clients come in by; made anew where somebody removed it."""

    def __init__(self, path: str, accept: Accept) -> None:
        self._path = path
        self._accept = accept
        self._listener: Listener | None = None
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Lets clients in from now on. Those who came by the socket before stay.

        Raises:
            StateUnavailable: The socket cannot be made.
        """
        listener = Listener(self._path)
        server = await asyncio.start_unix_server(self._accept, sock=listener.socket, limit=MAX_REQUEST_BYTES)
        if self._server is not None:
            self._server.close()
        self._listener, self._server = listener, server

    def is_there(self) -> bool:
        """Whether clients still find the socket."""
        return self._listener is not None and self._listener.is_there()

    def close(self) -> None:
        """Lets nobody in any more."""
        if self._listener is not None:
            self._listener.remove()
        if self._server is not None:
            self._server.close()


class Owned:
    """Files that have to stay where they are, those of them that are there now."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._files = [(path, found) for path in paths if (found := _identity(path)) is not None]

    def lost(self) -> str | None:
        """The first that is gone or was replaced."""
        return next((path for path, found in self._files if _identity(path) != found), None)


async def keep(service: Service, door: Door, owned: Owned, *, look_s: float = LOOK_S) -> None:
    """Looks now and then, until the daemon ends; ends it where it owns nothing any more."""
    complained = False
    while not service.ending.is_set():
        await asyncio.sleep(look_s)
        lost = owned.lost()
        if lost is not None:
            _LOGGER.error("%s was removed or replaced: stopping, the next command starts anew", lost)
            service.ending.set()
        elif not door.is_there():
            try:
                await door.open()
                _LOGGER.warning("the socket was removed: made again")
                complained = False
            except StateUnavailable as error:
                if not complained:
                    _LOGGER.error("%s: %s", error.code, error.message)
                complained = True


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
