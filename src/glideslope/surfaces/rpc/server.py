"""The daemon's process: from its arguments to its end."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from glideslope.adapters.settings import folder_reader, load_settings, user_settings_file
from glideslope.adapters.state import StateFolder
from glideslope.errors import GlideslopeError, InternalError
from glideslope.surfaces.rpc.connection import Connection
from glideslope.surfaces.rpc.door import Door, Owned, keep
from glideslope.surfaces.rpc.listener import admitted
from glideslope.surfaces.rpc.message import refused
from glideslope.surfaces.rpc.service import ServedEngine, Service
from glideslope_fast.place import LOCK, socket_path

FINISH_S = 5.0  # for clients to take their last frames
CLOSE_S = 1.0
MAX_LOG_BYTES = 5_000_000
_LOGGER = logging.getLogger(__name__)


class Build(Protocol):
    """Makes an engine on a state folder and owns the folder meanwhile."""

    def __call__(
        self, state_dir: str, *, socket: str | None = None
    ) -> AbstractAsyncContextManager[ServedEngine]:
        """Opens it; `socket` is what clients are told."""
        ...


async def serve(state: StateFolder, build: Build, *, idle_s: float, ready: Callable[[], None]) -> None:
    """Serves one state folder until told to stop, or idle for so long.

    Args:
        state: The folder.
        build: Makes the engine.
        idle_s: Seconds without client and run after which the daemon stops.
        ready: Called once clients can connect.

    Raises:
        EngineBusy: Another engine owns the folder.
        StateUnavailable: The folder or the socket cannot be used.
    """
    path = socket_path(state.root, os.environ)
    async with build(state.root, socket=path) as engine:
        service = Service(engine, idle_s=idle_s)
        connections: dict[Connection, asyncio.Task[None]] = {}

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if not admitted(writer.get_extra_info("socket")):
                writer.close()
                return
            connection = Connection(service, reader, writer)
            task = asyncio.current_task()
            assert task is not None, "asyncio serves each client in a task"
            connections[connection] = task
            service.entered()
            try:
                await connection.serve()
            finally:
                del connections[connection]
                service.left()

        door = Door(path, accept)
        await door.open()
        _end_on_signals(service)
        owned = Owned((os.path.join(state.root, LOCK), state.journal))
        watches = [
            asyncio.create_task(work) for work in (service.end_when_idle(), keep(service, door, owned))
        ]
        try:
            ready()
            _LOGGER.info("process %d serves %s at %s", os.getpid(), state.root, path)
            await service.ending.wait()
        finally:
            for watch in watches:
                watch.cancel()
            door.close()
        await engine.close()
        # Only now is the last event journaled; whoever listens still gets it.
        service.final_seq = engine.last_seq
        await asyncio.wait([asyncio.create_task(_finish(tuple(connections)))], timeout=FINISH_S)
        await service.finish_work(0)
        await _close(dict(connections))
    _LOGGER.info("process %d ended", os.getpid())


async def _finish(connections: Sequence[Connection]) -> None:
    await asyncio.gather(*(connection.finish() for connection in connections))


async def _close(connections: Mapping[Connection, asyncio.Task[None]]) -> None:
    """Closes every connection; one whose client does not read is cut."""
    for connection in connections:
        connection.close()
    if connections:
        await asyncio.wait(connections.values(), timeout=CLOSE_S)
    for connection, task in connections.items():
        if not task.done():
            connection.abort()
    if connections:
        await asyncio.wait(connections.values())


def _end_on_signals(service: Service) -> None:
    """The first signal ends the daemon in good order, a second one of the kind at once."""
    loop = asyncio.get_running_loop()

    def end(number: signal.Signals) -> None:
        loop.remove_signal_handler(number)
        _LOGGER.info("%s: stopping", number.name)
        service.ending.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number)


def main(arguments: Sequence[str] | None = None, *, build: Build | None = None) -> int:
    """Runs the daemon in this process.

    Args:
        arguments: `--state DIR`, optionally `--detached` and `--idle-s S`; None: of this process.
        build: Makes the engine; None: the real one.

    Returns:
        The exit code: 0, or that of the error that kept it from starting.
    """
    given = _parse(arguments)
    report = _Report(os.dup(2) if given.detached else None)
    try:
        state = StateFolder.open(given.state)
        _log_to(state.daemon_log if given.detached else None)
        idle_s = _idle_s() if given.idle_s is None else given.idle_s
        asyncio.run(serve(state, build or _composed(), idle_s=idle_s, ready=report.ready))
    except GlideslopeError as error:
        _LOGGER.error("%s: %s", error.code, error.message)
        report.failed(error)
        return error.exit_code
    except Exception as error:
        _LOGGER.exception("the daemon failed")
        text = f"the daemon failed by a mistake of ours ({type(error).__name__}: {error}): report it with its log"
        report.failed(InternalError(text))
        return InternalError.exit_code
    return 0


class _Report:
    """Tells whoever started a detached daemon how the start went, once."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def ready(self) -> None:
        self._say({"ready": {"pid": os.getpid()}})

    def failed(self, error: GlideslopeError) -> None:
        self._say(refused(None, error))

    def _say(self, what: object) -> None:
        if self._descriptor is None:
            return
        try:
            os.write(self._descriptor, json.dumps(what).encode() + b"\n")
        except BrokenPipeError:
            pass  # it did not wait
        os.close(self._descriptor)
        self._descriptor = None


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="glideslope-daemon", description="The process that verifies.")
    parser.add_argument("--state", required=True, metavar="DIR", help="the state folder")
    parser.add_argument(
        "--detached", action="store_true", help="report the start on standard error, then log"
    )
    parser.add_argument("--idle-s", type=float, metavar="S", help="stop after so many idle seconds")
    return parser.parse_args(arguments)


def _log_to(path: str | None) -> None:
    if path is not None:
        if os.path.exists(path) and os.path.getsize(path) > MAX_LOG_BYTES:
            os.replace(path, f"{path}.1")
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        os.umask(0o022)  # whoever started us: tasks inherit it
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


def _idle_s() -> float:
    """The setting of this user; a repository has no say in the life of the daemon."""
    merged = load_settings(
        user_file=user_settings_file(os.environ), variables=os.environ, read=folder_reader(None)
    )
    return merged.settings.environment.daemon_idle_s


def _composed() -> Build:
    from glideslope.compose import build

    return build


if __name__ == "__main__":
    sys.exit(main())
