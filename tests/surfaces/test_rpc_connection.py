"""One connection of the daemon, in this process."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from glideslope.engine.actions import Action, Answer, Cancelled
from glideslope.model.event import Recorded
from glideslope.surfaces.rpc import connection
from glideslope.surfaces.rpc.connection import Connection
from glideslope.surfaces.rpc.service import Service

SOON_S = 10.0


class CountingEngine:
    """Answers nothing until told to, and counts what waits."""

    def __init__(self) -> None:
        self.waiting = 0
        self.release = asyncio.Event()
        self.busy = False
        self.last_seq = 0

    async def act(self, action: Action) -> Answer:
        self.waiting += 1
        await self.release.wait()
        self.waiting -= 1
        return Cancelled(cancelled=(), survivors=0)

    async def events(self, after: int) -> AsyncIterator[Recorded]:
        for nothing in ():
            yield nothing

    async def close(self) -> None:
        self.release.set()


class Wire:
    """A client and the connection that serves it."""

    def __init__(self) -> None:
        self.engine = CountingEngine()
        self.service = Service(self.engine, idle_s=3600.0)

    async def __aenter__(self) -> Wire:
        ours, theirs = socket.socketpair()
        self.reader, self.writer = await asyncio.open_connection(sock=ours)
        served = Connection(self.service, *await asyncio.open_connection(sock=theirs))
        self.task = asyncio.create_task(served.serve())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()
        self.engine.release.set()
        await asyncio.wait_for(self.task, SOON_S)
        await self.service.finish_work(SOON_S)

    def say(self, frame: dict[str, Any]) -> None:
        self.writer.write(json.dumps(frame).encode() + b"\n")

    async def hear(self) -> Any:
        return json.loads(await asyncio.wait_for(self.reader.readline(), SOON_S) or "null")

    async def greet(self) -> None:
        self.say({"hello": {"protocol": 1, "version": "x"}})
        assert "hello" in await self.hear()


async def test_who_connects_and_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HELLO_S", 0.02)
    async with Wire() as wire:
        assert await wire.hear() is None


async def test_one_client_has_only_so_many_requests_at_work_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "MAX_PENDING", 3)
    async with Wire() as wire:
        await wire.greet()
        for number in range(10):
            wire.say({"id": number, "action": "cancel", "input": {"caller": {"folder": "/"}}})
        with anyio.fail_after(SOON_S):
            while wire.engine.waiting < 3:
                await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        assert wire.engine.waiting == 3

        wire.engine.release.set()
        assert sorted([(await wire.hear())["id"] for _ in range(10)]) == list(range(10))


async def test_a_request_with_the_number_of_an_open_one_ends_the_connection() -> None:
    async with Wire() as wire:
        await wire.greet()
        for _ in range(2):
            wire.say({"id": 1, "action": "cancel", "input": {"caller": {"folder": "/"}}})
        last = await wire.hear()
        assert (last["id"], last["error"]["code"]) == (None, "invalid_input")


async def test_what_was_asked_is_done_even_if_nobody_waits_for_the_answer() -> None:
    async with Wire() as wire:
        await wire.greet()
        wire.say({"id": 1, "action": "cancel", "input": {"caller": {"folder": "/"}}})
        with anyio.fail_after(SOON_S):
            while wire.engine.waiting == 0:
                await asyncio.sleep(0)
        wire.writer.close()
        await asyncio.wait_for(wire.task, SOON_S)
        assert wire.engine.waiting == 1

        wire.engine.release.set()
        await wire.service.finish_work(SOON_S)
        assert wire.engine.waiting == 0
