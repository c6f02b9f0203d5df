"""A daemon whose socket or state folder is taken away while it runs."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from glideslope.adapters.lock import Owner, StateLock
from glideslope.adapters.state import StateFolder
from glideslope.engine.actions import Action, Answer
from glideslope.errors import HostUnavailable
from glideslope.model.event import Recorded
from glideslope.surfaces.client import connect
from glideslope.surfaces.rpc.door import Door, Owned, keep
from glideslope.surfaces.rpc.service import Service

SOON_S = 20.0
LOOK_S = 0.01


class IdleEngine:
    """An engine that nobody asks anything."""

    busy = False
    last_seq = 0

    async def act(self, action: Action) -> Answer:
        raise AssertionError("nobody asks")

    def events(self, after: int) -> AsyncIterator[Recorded]:
        raise AssertionError("nobody asks")

    async def close(self) -> None:
        pass


async def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        await asyncio.sleep(LOOK_S)


def answer_at(path: str) -> bytes:
    """What a client that comes by the socket is told; empty where it does not get in."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(SOON_S)
        try:
            client.connect(path)
        except OSError:
            return b""
        return client.recv(10)


async def served(path: str, damage: Callable[[], None], owned: tuple[str, ...]) -> tuple[bytes, bool]:
    """Damages something under a daemon; what the next client is told, and whether the daemon ends."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    service = Service(IdleEngine(), idle_s=1000)
    door = Door(path, accept)
    await door.open()
    keeper = asyncio.create_task(keep(service, door, Owned(owned), look_s=LOOK_S))
    try:
        assert await asyncio.to_thread(answer_at, path) == b"hello"
        damage()
        await until(lambda: door.is_there() or service.ending.is_set())
        if owned:
            await until(service.ending.is_set)
        return await asyncio.to_thread(answer_at, path), service.ending.is_set()
    finally:
        keeper.cancel()
        door.close()


def remove(path: str) -> None:
    os.unlink(path)


def replace_by_a_file(path: str) -> None:
    os.unlink(path)
    Path(path).write_text("junk")


def remove_its_folder(path: str) -> None:
    shutil.rmtree(os.path.dirname(path))


@pytest.mark.parametrize("damage", [remove, replace_by_a_file, remove_its_folder])
def test_a_socket_that_was_taken_away_is_made_again(tmp_path: Path, damage: Callable[[str], None]) -> None:
    path = str(tmp_path / "run" / "s.sock")

    assert asyncio.run(served(path, lambda: damage(path), ())) == (b"hello", False)
    assert not os.path.exists(path)


@pytest.mark.parametrize("name", ["lock", "journal.sqlite3"])
def test_a_daemon_whose_state_was_removed_ends(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / "run" / "s.sock")
    owned = tmp_path / name
    owned.touch()

    assert asyncio.run(served(path, owned.unlink, (str(owned),)))[1]


def test_an_owner_that_does_not_answer_is_named(tmp_path: Path) -> None:
    state = StateFolder.open(str(tmp_path / "state")).root
    lock = StateLock.acquire(state, Owner(pid=os.getpid(), version="1", socket=str(tmp_path / "gone.sock")))
    environ = {"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)}
    try:
        with pytest.raises(HostUnavailable, match=f"process {os.getpid()} owns it") as silent:
            connect(state, environ=environ, timeout_s=0.1)
    finally:
        lock.release()
    assert silent.value.next == f"kill {os.getpid()}"


def test_what_a_daemon_leaves_of_a_removed_state_folder_is_taken_over(tmp_path: Path) -> None:
    for left in ("git", "objects", "snapshots", "trees", "journal.sqlite3", "journal.sqlite3-wal"):
        (tmp_path / left).mkdir()

    assert StateFolder.open(str(tmp_path)).root == os.path.realpath(tmp_path)
