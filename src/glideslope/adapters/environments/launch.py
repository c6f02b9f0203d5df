"""The daemon's end of the launcher: starts it, hands it commands, follows each to its end.

One `Launcher` serves any number of environments of its kind. It is started at the first command
and again after a death; the commands a dead one was running end as `died`.
"""

from __future__ import annotations

import array
import asyncio
import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from glideslope.adapters.environments.output import BoundedStream, LineSplitter
from glideslope.errors import HostUnavailable
from glideslope.model.sandbox import ExecOutcome, ExecSpec, TimeLimit
from glideslope.ports.environment import ExecWatch

BOOT = os.path.normpath(os.path.join(os.path.dirname(__file__), "..", "..", "worker", "boot.py"))
"""The program that starts our helper processes."""
_PASSED = ("PATH", "LD_LIBRARY_PATH")
_READ_BYTES = 256 * 1024
_PIPE_BYTES = 1024 * 1024
_GREETING_S = 20.0
_PROOF_S = 5.0  # a killed sandbox is gone in milliseconds; this only bounds a broken kernel


@dataclass(kw_only=True)
class Ending:
    """The end of one exec, as the exec host told it, with what the daemon itself saw."""

    facts: dict[str, Any]  # empty: the host was killed
    queued_at: float
    sent_at: float
    finished_at: float
    proven_gone: bool  # by the host's word, or by the kernel's where the host was killed
    stdout: BoundedStream
    stderr: BoundedStream


class Launcher:
    """A supervised launcher process.

    Args:
        kind: `sandbox` (namespaces) or `live` (none).
        python: Interpreter to run it with; ours.
    """

    def __init__(self, kind: str, *, python: str = sys.executable) -> None:
        self.kind = kind
        self._python = python
        self._lock = anyio.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        """Process id, while there is one."""
        return self._process.pid if self._process else None

    async def run(self, request: Mapping[str, Any], spec: ExecSpec, watch: ExecWatch | None) -> Ending:
        """Runs one command; returns or raises only when its processes are gone.

        Raises:
            HostUnavailable: The launcher cannot be started, or has no namespaces to give.
        """
        queued_at = time.monotonic()
        conversation = _Conversation(spec, watch)
        try:
            await self._hand_over(request, conversation)
            sent_at = time.monotonic()
            conversation.begin()
            await _until_gone(conversation)
        finally:
            conversation.close()
        return Ending(
            facts=conversation.facts,
            queued_at=queued_at,
            sent_at=sent_at,
            finished_at=time.monotonic(),
            proven_gone=conversation.proven_gone,
            stdout=conversation.stdout,
            stderr=conversation.stderr,
        )

    async def stop(self) -> None:
        """Ends the launcher and with it everything it runs. May be called again."""
        with anyio.CancelScope(shield=True):
            async with self._lock:
                await self._end_process()

    async def _hand_over(self, request: Mapping[str, Any], conversation: _Conversation) -> None:
        handles = conversation.open(json.dumps(request).encode("ascii"))
        try:
            async with self._lock:
                try:
                    await self._send(handles)
                except (BrokenPipeError, ConnectionResetError):
                    await self._end_process()  # it died while idle: once more with a new one
                    await self._send(handles)
        except OSError as error:
            raise HostUnavailable(
                f"the launcher does not take commands: {error}", next="glideslope doctor"
            ) from error
        finally:
            for handle in handles:
                os.close(handle)

    async def _send(self, handles: list[int]) -> None:
        with anyio.CancelScope(shield=True):  # half a start could not be gone on with
            channel = self._channel or await self._start()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", handles))]
        while True:
            try:
                channel.sendmsg([b"exec"], rights)
                return
            except BlockingIOError:
                await anyio.wait_writable(channel)

    async def _start(self) -> socket.socket:
        await self._end_process()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            try:
                self._process = _spawn(self._python, self.kind, theirs.fileno())
            except OSError as error:
                ours.close()
                raise HostUnavailable(
                    f"the launcher cannot be started: {error}", next="glideslope doctor"
                ) from error
        self._channel = ours
        greeting = await self._greeting(ours)
        if not greeting.get("ready"):
            await self._end_process()
            raise HostUnavailable(
                f"no sandbox can be made here: {greeting.get('reason', 'the launcher ended at once')}",
                next="glideslope doctor",
            )
        return ours

    async def _greeting(self, channel: socket.socket) -> dict[str, Any]:
        with anyio.move_on_after(_GREETING_S):
            await anyio.wait_readable(channel)
            data = channel.recv(4096)
            return dict(json.loads(data)) if data else {}
        return {"reason": "the launcher did not answer"}

    async def _end_process(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            process, self._process = self._process, None
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_wait_or_kill, process)


def _spawn(python: str, kind: str, handle: int) -> subprocess.Popen[bytes]:
    passed = {
        name: text for name, text in os.environ.items() if name in _PASSED or name.startswith("GLIDESLOPE")
    }
    argv = [python, "-I", "-S", "-X", "utf8", BOOT, "launcher", kind, str(handle)]
    return subprocess.Popen(
        argv,
        pass_fds=(handle,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=passed,
        cwd="/",
    )


def _wait_or_kill(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(timeout=_PROOF_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


async def _until_gone(conversation: _Conversation) -> None:
    """Waits for the proven end; a cancelled caller first has its command ended."""
    try:
        await conversation.over.wait()
    except asyncio.CancelledError:
        conversation.ask_to_stop(ExecOutcome.CANCELLED, reason="the caller was cancelled")
        with anyio.CancelScope(shield=True):
            await _insist(conversation.over)
            await _insist_gone(conversation)
        raise
    with anyio.CancelScope(shield=True):
        await _insist_gone(conversation)


async def _insist(event: anyio.Event) -> None:
    while not event.is_set():
        try:
            await event.wait()
        except asyncio.CancelledError:
            continue  # cancelled again while the processes are still being ended


async def _insist_gone(conversation: _Conversation) -> None:
    """Without the host's word, the kernel's: init's descriptor tells when the last process is gone."""
    conversation.proven_gone = bool(conversation.facts)
    with anyio.move_on_after(_PROOF_S, shield=True):
        if not conversation.facts and conversation.init_fd >= 0:
            await anyio.wait_readable(conversation.init_fd)
            conversation.proven_gone = True
        await _insist(conversation.drained)


@dataclass(kw_only=True)
class _Reader:
    """One pipe being read."""

    name: str
    handle: int
    take: Callable[[bytes], None]


@dataclass
class _Conversation:
    """One exec: its pipes, its control socket, its limits on silence."""

    spec: ExecSpec
    watch: ExecWatch | None
    facts: dict[str, Any] = field(default_factory=dict)
    over: anyio.Event = field(default_factory=anyio.Event)
    drained: anyio.Event = field(default_factory=anyio.Event)
    init_fd: int = -1
    proven_gone: bool = False

    def __post_init__(self) -> None:
        log = self.spec.log_path
        self.stdout = BoundedStream(self.spec.output, log)
        self.stderr = BoundedStream(self.spec.output, log)
        self._lines = LineSplitter()
        self._buffer = b""
        self._readers: dict[int, _Reader] = {}
        self._control: socket.socket | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._heard_at = time.monotonic()
        self._loop = asyncio.get_running_loop()

    def open(self, request: bytes) -> list[int]:
        """Makes everything the exec host needs; returns its descriptors, in the agreed order."""
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._control.setblocking(False)
        handles = [_memory_file(request), theirs.detach(), self._stdin()]
        handles.append(self._pipe("stdout", self.stdout.feed))
        handles.append(self._pipe("stderr", self.stderr.feed))
        if self.spec.report:
            handles.append(self._pipe("report", self._take_report))
        return handles

    def _stdin(self) -> int:
        if self.spec.stdin:
            return _memory_file(self.spec.stdin)
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _pipe(self, name: str, take: Callable[[bytes], None]) -> int:
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        try:
            fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        except OSError:
            pass  # over the user's allowance for pipes: slower, not wrong
        self._readers[ours] = _Reader(name=name, handle=ours, take=take)
        return theirs

    def begin(self) -> None:
        """Starts to listen."""
        assert self._control is not None
        self._loop.add_reader(self._control.fileno(), self._on_control)
        for reader in self._readers.values():
            self._loop.add_reader(reader.handle, self._on_pipe, reader)
        if self.watch is not None:
            self.watch.bind(lambda reason: self.ask_to_stop(ExecOutcome.CANCELLED, reason=reason))
        if self.spec.idle_s is not None:
            self._heard_at = time.monotonic()
            self._idle = self._loop.call_later(self.spec.idle_s, self._check_idle)

    def ask_to_stop(self, outcome: ExecOutcome, *, limit: TimeLimit | None = None, reason: str = "") -> None:
        """Begins the ladder of signals in the exec host; the first reason given counts."""
        message = {"stop": {"outcome": outcome, "limit": limit, "reason": reason}}
        if self._control is not None and not self.over.is_set():
            try:
                self._control.send(json.dumps(message).encode("ascii") + b"\n")
            except OSError:
                pass  # it has just ended; its end is on the way

    def close(self) -> None:
        """Lets go of everything. Closing the control socket ends a host that still runs."""
        if self._idle is not None:
            self._idle.cancel()
        if self.watch is not None:
            self.watch.bind(lambda reason: None)
        for reader in list(self._readers.values()):
            self._end_pipe(reader)
        if self._control is not None:
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
            self._control = None
        if self.init_fd >= 0:
            os.close(self.init_fd)
            self.init_fd = -1
        self.stdout.close()
        self.stderr.close()

    def _on_pipe(self, reader: _Reader) -> None:
        try:
            data = os.read(reader.handle, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._end_pipe(reader)
            return
        self._heard_at = time.monotonic()
        reader.take(data)
        if self.watch is not None and self.watch.on_output is not None and reader.name != "report":
            stream = self.stdout if reader.name == "stdout" else self.stderr
            self.watch.on_output(reader.name, stream.total_bytes)

    def _end_pipe(self, reader: _Reader) -> None:
        self._loop.remove_reader(reader.handle)
        os.close(reader.handle)
        del self._readers[reader.handle]
        if not self._readers:
            self.drained.set()

    def _take_report(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            if self.watch is not None and self.watch.on_report is not None:
                self.watch.on_report(line)

    def _on_control(self) -> None:
        assert self._control is not None
        try:
            data, ancillary, _, _ = self._control.recvmsg(1 << 20, socket.CMSG_SPACE(4))
        except BlockingIOError:
            return
        except OSError:
            data, ancillary = b"", []
        for _, _, content in ancillary:
            self.init_fd = array.array("i", content[:4])[0]
            os.set_inheritable(self.init_fd, False)
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._take_news(json.loads(line))
        if not data or self.facts:
            self._loop.remove_reader(self._control.fileno())
            self.over.set()

    def _take_news(self, news: dict[str, Any]) -> None:
        self.facts = news.get("ended", self.facts)

    def _check_idle(self) -> None:
        assert self.spec.idle_s is not None
        left_s = self._heard_at + self.spec.idle_s - time.monotonic()
        if left_s <= 0:
            self.ask_to_stop(ExecOutcome.TIMED_OUT, limit=TimeLimit.IDLE)
        else:
            self._idle = self._loop.call_later(left_s, self._check_idle)


def _memory_file(content: bytes) -> int:
    handle = os.memfd_create("glideslope", os.MFD_CLOEXEC)
    view = memoryview(content)
    while view:
        view = view[os.write(handle, view) :]
    os.lseek(handle, 0, os.SEEK_SET)
    return handle
