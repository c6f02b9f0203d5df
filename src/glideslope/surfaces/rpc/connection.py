"""One client: its requests, answered side by side, and the runs that hang on it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import cast

from glideslope import codec
from glideslope.engine.actions import Caller, Cancel, Started
from glideslope.errors import GlideslopeError, InternalError, InvalidInput, RequestError
from glideslope.model.event import Recorded
from glideslope.model.ids import RunId
from glideslope.surfaces.rpc.message import (
    CancelRequest,
    DaemonStatus,
    DaemonStop,
    Events,
    Frame,
    Request,
    answered,
    catalogued,
    line,
    read_action,
    read_frame,
    read_hello,
    read_request,
    refused,
    strict,
)
from glideslope.surfaces.rpc.service import Service
from glideslope_fast.talk import PROTOCOL

HELLO_S = 10.0  # who connects and says nothing is not waited for
MAX_PENDING = 64  # requests of one client at a time; more are read later
_LOGGER = logging.getLogger(__name__)


class RequestCancelled(RequestError):
    """The client gave the request up."""

    code = "request_cancelled"


class Connection:
    """Serves one client until it goes away or says what is no frame."""

    def __init__(self, service: Service, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._service = service
        self._reader = reader
        self._writer = writer
        self._pending: dict[int, asyncio.Task[None]] = {}
        self._waiting: set[int] = set()  # those that only wait: nothing is lost by giving them up
        self._streams: dict[int, _Stream] = {}
        self._tied: set[RunId] = set()
        self._gone = False
        self._room = asyncio.Semaphore(MAX_PENDING)

    async def serve(self) -> None:
        """Reads and answers until the end of the connection; never raises for what a client does."""
        try:
            async with asyncio.timeout(HELLO_S):
                greeted = await self._greet()
            if greeted:
                await self._read_requests()
        except InvalidInput as error:
            await self._send(refused(None, error))
        except (TimeoutError, ConnectionError):
            pass
        finally:
            await self._leave()

    async def finish(self) -> None:
        """Lets streams run out to the last event and waits for what is being answered."""
        for number, stream in self._streams.items():
            stream.end_at(self._service.final_seq)
            if stream.is_over():
                self._give_up(number)  # it waits for what will not come
        if self._pending:
            await asyncio.wait(tuple(self._pending.values()))

    def close(self) -> None:
        """Ends the connection once what was written is sent."""
        self._writer.close()

    def abort(self) -> None:
        """Ends the connection now."""
        self._writer.transport.abort()

    async def _greet(self) -> bool:
        frame = await self._next_frame()
        if frame is None:
            return False
        read_hello(frame)
        status = self._service.status()
        await self._send({"hello": {"protocol": PROTOCOL, **status}})
        return True

    async def _read_requests(self) -> None:
        while (frame := await self._next_frame()) is not None:
            request = read_request(frame)
            if isinstance(request, CancelRequest):
                self._give_up(request.cancel)
                continue
            if request.id in self._pending:
                raise InvalidInput(f"request {request.id} is still open: use another id", field="id")
            await self._room.acquire()
            task = self._service.spawn(self._answer(request))
            self._pending[request.id] = task
            task.add_done_callback(lambda _, number=request.id: self._answered(number))  # type: ignore[misc]

    async def _next_frame(self) -> Frame | None:
        try:
            text = await self._reader.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return None
        except asyncio.LimitOverrunError:
            raise InvalidInput("a frame of this size is not taken: ask for less at a time") from None
        return read_frame(text)

    def _give_up(self, number: int) -> None:
        task = self._pending.get(number)
        if task is not None:
            task.cancel()

    def _answered(self, number: int) -> None:
        self._pending.pop(number, None)
        self._waiting.discard(number)
        self._room.release()

    async def _answer(self, request: Request) -> None:
        """The top of this surface: whatever happens to a request, its client hears of it."""
        try:
            frame = await self._served(request)
        except asyncio.CancelledError:
            frame = refused(request.id, RequestCancelled(f"request {request.id} was given up"))
        except GlideslopeError as error:
            frame = refused(request.id, error)
        except Exception:
            _LOGGER.exception("request %r failed", request.action)
            text = f"{request.action} failed by a mistake of ours: report it with the end of the daemon's log"
            frame = refused(request.id, InternalError(text, log="daemon.log"))
        await self._send(frame)

    async def _served(self, request: Request) -> Frame:
        special = self._special(request.action)
        if special is not None:
            return {"id": request.id, "ok": True, "data": await special(request)}
        entry = catalogued(request.action)
        action = read_action(entry, request.input)
        if entry.starts_run:
            self._service.require_open()
        if entry.name == "wait":
            self._waiting.add(request.id)
        answer = await self._service.engine.act(action)
        if request.tie and isinstance(answer, Started) and not answer.joined:
            await self._tie(answer.run_id)
        return answered(request, answer)

    def _special(self, action: str) -> Callable[[Request], Awaitable[Frame]] | None:
        return {
            "events": self._events,
            "daemon.status": self._daemon_status,
            "daemon.stop": self._daemon_stop,
        }.get(action)

    async def _daemon_status(self, request: Request) -> Frame:
        strict(DaemonStatus, request.input)
        return self._service.status()

    async def _daemon_stop(self, request: Request) -> Frame:
        await self._service.stop(strict(DaemonStop, request.input))
        return self._service.status()

    async def _events(self, request: Request) -> Frame:
        asked = strict(Events, request.input)
        self._waiting.add(request.id)
        stream = self._streams[request.id] = _Stream(asked, last_seq=self._service.engine.last_seq)
        if self._service.final_seq is not None:
            stream.end_at(self._service.final_seq)
        try:
            await self._run_stream(request.id, stream)
        except asyncio.CancelledError:
            if not stream.is_over():
                raise  # the client gave it up
        finally:
            del self._streams[request.id]
        return {"last_seq": stream.seen}

    async def _run_stream(self, number: int, stream: _Stream) -> None:
        if stream.is_over():
            return
        events = cast(AsyncGenerator[Recorded, None], self._service.engine.events(stream.seen))
        async with aclosing(events):
            async for recorded in events:
                if stream.wants(recorded):
                    await self._send({"id": number, "event": codec.encode(recorded)})
                stream.seen = recorded.seq
                if stream.is_over():
                    return

    async def _tie(self, run: RunId) -> None:
        """Makes a run end with this connection, also if that is gone by now."""
        self._tied.add(run)
        if self._gone:
            await self._untie()

    async def _untie(self) -> None:
        while self._tied:
            run = self._tied.pop()
            with suppress(GlideslopeError):  # it ended by itself, and was forgotten
                await self._service.engine.act(Cancel(caller=Caller(folder="/"), run_id=run))

    async def _send(self, frame: Frame) -> None:
        if self._gone:
            return
        try:
            self._writer.write(line(frame))
            await self._writer.drain()
        except ConnectionError:
            self._gone = True

    async def _leave(self) -> None:
        self._gone = True
        for number in self._waiting:
            self._give_up(number)
        self._writer.close()
        if self._tied and not self._service.ending.is_set():
            self._service.spawn(self._untie())


class _Stream:
    """Where one subscription stands, and where it ends."""

    def __init__(self, asked: Events, *, last_seq: int) -> None:
        self._asked = asked
        self.seen = last_seq if asked.after is None else asked.after
        self._end = None if asked.follow else last_seq

    def is_over(self) -> bool:
        """Whether everything up to the end was seen."""
        return self._end is not None and self.seen >= self._end

    def end_at(self, seq: int | None) -> None:
        """Makes this the last event."""
        self._end = seq

    def wants(self, recorded: Recorded) -> bool:
        """Whether the client asked for such an event."""
        kind = type(recorded.event).__name__
        if self._asked.types and kind not in self._asked.types:
            return False
        run = self._asked.run_id
        event = recorded.event
        return run is None or run == getattr(event, "run_id", None) or run in getattr(event, "queued_by", ())
