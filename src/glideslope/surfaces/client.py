"""The daemon's client: finds it, starts it where it does not run, asks it. Standard library only."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from glideslope.errors import EngineBusy, GlideslopeError, HostUnavailable, from_wire
from glideslope_fast import VERSION
from glideslope_fast.launch import DAEMON, launch
from glideslope_fast.place import LOCK, socket_path, state_dir
from glideslope_fast.talk import PROTOCOL, Line

START_S = 30.0  # for a daemon to be ready, its recovery included
CONNECT_S = 5.0
ANSWER_S = 120.0
LOOK_S = 0.05  # between looks at what nobody announces: the end of another process


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """Who answers at the other end."""

    pid: int
    version: str
    protocol: int
    busy: bool
    uptime_s: float


class Client:
    """One connection; for one thread at a time, but for `close`.

    Requests may overlap: while events are read, other calls can be made on the same connection. A
    call that was interrupted (by a signal, by its time limit) closes the connection, because what is
    on its way belongs to nobody any more.
    """

    def __init__(self, line: Line, daemon: Daemon, state: str) -> None:
        self.daemon = daemon
        self.state_dir = state
        self._line = line
        self._next_id = 1
        self._frames: dict[int, deque[dict[str, Any]]] = {}

    def call(
        self,
        action: str,
        input: Mapping[str, object] | None = None,
        *,
        tie: bool = False,
        timeout_s: float | None = ANSWER_S,
    ) -> dict[str, Any]:
        """Asks for one action and waits for the answer.

        Args:
            action: A name of the catalogue, `daemon.status` or `daemon.stop`.
            input: Plain data of its input.
            tie: A run that this starts is cancelled when the connection ends.
            timeout_s: For the answer; None: for ever.

        Returns:
            Plain data of the answer.

        Raises:
            GlideslopeError: As the daemon says; HostUnavailable where it went away or is silent.
        """
        with _Wait(self, timeout_s):
            number = self._ask(action, input, tie)
            try:
                return _data(self._next_frame(number))
            finally:
                del self._frames[number]

    def events(
        self,
        *,
        after: int | None = None,
        follow: bool = True,
        run_id: str | None = None,
        types: Sequence[str] = (),
    ) -> Iterator[dict[str, Any]]:
        """What was journaled after a sequence number, as documents of `Recorded`.

        Asked for at once, so that nothing is missed before the first is taken.

        Args:
            after: None: only what is new.
            follow: Wait for more at the end, instead of ending there.
            run_id: Only events of this run.
            types: Only events of these classes, by name; empty: all.

        Raises:
            GlideslopeError: As of `call`; the daemon's own while iterating.
        """
        given: dict[str, object] = {"after": after, "follow": follow, "run_id": run_id, "types": list(types)}
        with _Wait(self, ANSWER_S):
            number = self._ask("events", given, tie=False)
        return self._stream(number)

    def _stream(self, number: int) -> Iterator[dict[str, Any]]:
        ended = False
        try:
            while not ended:
                with _Wait(self, None):
                    frame = self._next_frame(number)
                ended = "event" not in frame
                if ended:
                    _data(frame)
                else:
                    yield frame["event"]
        finally:
            del self._frames[number]
            if not ended:
                self._give_up(number)

    def close(self) -> None:
        """Ends the connection; from any thread, and more than once."""
        self._line.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def wait_at_most(self, timeout_s: float | None) -> None:
        """Bounds the waits of what follows."""
        self._line.wait_at_most(timeout_s)

    def _ask(self, action: str, given: Mapping[str, object] | None, tie: bool) -> int:
        number, self._next_id = self._next_id, self._next_id + 1
        self._frames[number] = deque()
        self._line.send({"id": number, "action": action, "input": given or {}, "tie": tie})
        return number

    def _next_frame(self, number: int) -> dict[str, Any]:
        """The next frame of one request; those of others are kept for them."""
        mine = self._frames[number]
        while not mine:
            frame = self._line.receive()
            if frame.get("id") is None:
                raise _rebuilt(frame)
            if frame["id"] in self._frames:  # of a stream that was given up: dropped
                self._frames[frame["id"]].append(frame)
        return mine.popleft()

    def _give_up(self, number: int) -> None:
        try:
            self._line.send({"id": number, "cancel": number})
        except OSError:
            pass  # with the connection the stream has ended too


class _Wait:
    """Around everything that waits: failures become ours, and a torn connection is closed."""

    def __init__(self, client: Client, timeout_s: float | None) -> None:
        self._client = client
        self._timeout_s = timeout_s

    def __enter__(self) -> None:
        try:
            self._client.wait_at_most(self._timeout_s)
        except OSError as error:
            raise _gone(self._client, error) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, GlideslopeError):
            return
        self._client.close()
        if isinstance(error, OSError):
            raise _gone(self._client, error) from error


def connect(
    state: str | None = None,
    *,
    command: Sequence[str] = DAEMON,
    environ: Mapping[str, str] | None = None,
    timeout_s: float = START_S,
) -> Client:
    """Connects to the daemon of a state folder; starts one where none runs.

    An idle daemon of another version is stopped and replaced.

    Args:
        state: The state folder; None: this user's.
        command: What starts a daemon, without `--state`.
        environ: Environment variables; None: those of this process.
        timeout_s: In all.

    Raises:
        HostUnavailable: It could not be started in time.
        EngineBusy: Another version is at work, or an engine without a socket owns the folder.
        StateUnavailable: The state folder cannot be used.
    """
    environ = os.environ if environ is None else environ
    state = os.path.realpath(state) if state else state_dir(environ)
    deadline = time.monotonic() + timeout_s
    while (client := _usable(state, environ, deadline)) is None:
        if time.monotonic() > deadline:
            raise _silent(state)
        if is_owned(state):
            _require_socket(state)
            time.sleep(LOOK_S)  # the owner is starting, or stopping
        else:
            with suppress(EngineBusy):  # somebody else was faster
                _start(state, command, environ, deadline)
    return client


def find(state: str | None = None, *, environ: Mapping[str, str] | None = None) -> Client | None:
    """Connects to the daemon of a state folder, of whatever version; None where none answers."""
    environ = os.environ if environ is None else environ
    state = os.path.realpath(state) if state else state_dir(environ)
    for path in dict.fromkeys((socket_path(state, environ), _owner(state).get("socket"))):
        if not isinstance(path, str):
            continue
        try:
            line = Line.open(path, timeout_s=CONNECT_S)
        except OSError:
            continue
        try:
            return Client(line, _daemon(line.greet()), state)
        except OSError:
            line.close()
    return None


def is_owned(state: str) -> bool:
    """Whether an engine owns a state folder now."""
    try:
        descriptor = os.open(os.path.join(state, LOCK), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False  # nobody did yet, or nobody can
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def wait_stopped(state: str, *, timeout_s: float) -> bool:
    """Waits until nobody owns a state folder; whether that came true in time."""
    deadline = time.monotonic() + timeout_s
    while is_owned(state):
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_S)
    return True


def _usable(state: str, environ: Mapping[str, str], deadline: float) -> Client | None:
    """A connection to a daemon of our version; one of another is stopped where it is idle."""
    client = find(state, environ=environ)
    if client is None or (client.daemon.version, client.daemon.protocol) == (VERSION, PROTOCOL):
        return client
    _replace(client, deadline)
    return None


def _replace(client: Client, deadline: float) -> None:
    """Stops an idle daemon of another version.

    Raises:
        EngineBusy: It is at work.
    """
    found = client.daemon
    with client:
        try:
            client.call("daemon.stop", {"only_idle": True})
        except EngineBusy:
            raise EngineBusy(
                f"the daemon (process {found.pid}) is version {found.version} and at work, this is version "
                f"{VERSION}: run `glideslope daemon stop --wait` first",
                next="glideslope daemon stop --wait",
                pid=found.pid,
                daemon_version=found.version,
                version=VERSION,
            ) from None
        except HostUnavailable:
            pass  # it stopped before it could say so
    wait_stopped(client.state_dir, timeout_s=deadline - time.monotonic())


def _start(state: str, command: Sequence[str], environ: Mapping[str, str], deadline: float) -> None:
    """Starts a daemon and returns when it is ready.

    Raises:
        GlideslopeError: As the daemon says; HostUnavailable where it died without a word.
    """
    try:
        report = launch(command, state, environ, deadline_s=deadline)
    except (OSError, subprocess.CalledProcessError) as error:
        raise HostUnavailable(f"the daemon cannot be started: {error}", next="glideslope doctor") from error
    failure = _failure(report, state)
    if failure is not None:
        raise failure


def _failure(report: bytes, state: str) -> GlideslopeError | None:
    """What the last line of a start says; where it says nothing, the process died of something."""
    *_, last = report.decode(errors="replace").strip().splitlines() or [""]
    try:
        said = json.loads(last)
    except ValueError:
        said = {}
    if isinstance(said, dict) and "ready" in said:
        return None
    if isinstance(said, dict) and "error" in said:
        return _rebuilt(said)
    reason = last or f"look into {os.path.join(state, 'daemon.log')}"
    return HostUnavailable(f"the daemon ended while it started: {reason}", next="glideslope doctor")


def _silent(state: str) -> HostUnavailable:
    """The error for a state folder whose owner, where it has one, does not answer in time."""
    log = os.path.join(state, "daemon.log")
    pid = _owner(state).get("pid") if is_owned(state) else None
    if pid is None:
        return HostUnavailable(f"no daemon answers for {state}: look into {log}", path=state)
    return HostUnavailable(
        f"no daemon answers for {state}, but process {pid} owns it: look into {log}, then end that process",
        next=f"kill {pid}",
        path=state,
        pid=pid,
    )


def _require_socket(state: str) -> None:
    """Raises where the owner is no daemon, so that waiting for its socket is of no use."""
    owner = _owner(state)
    if "pid" in owner and owner.get("socket") is None and os.path.exists(f"/proc/{owner['pid']}"):
        raise EngineBusy(
            f"process {owner['pid']} runs an engine of its own on {state}: end it, or set GLIDESLOPE_STATE_DIR "
            "to another folder",
            pid=owner["pid"],
        )


def _owner(state: str) -> dict[str, Any]:
    """What the owner of a state folder wrote about itself; empty where nothing is readable."""
    try:
        with open(os.path.join(state, LOCK), "rb") as file:
            found = json.loads(file.read(4096))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _daemon(hello: Mapping[str, Any]) -> Daemon:
    try:
        return Daemon(
            pid=int(hello["pid"]),
            version=str(hello["version"]),
            protocol=int(hello["protocol"]),
            busy=bool(hello["busy"]),
            uptime_s=float(hello["uptime_s"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConnectionError(f"the daemon's greeting is not complete: {error}") from error


def _data(frame: Mapping[str, Any]) -> dict[str, Any]:
    if not frame.get("ok"):
        raise _rebuilt(frame)
    data: dict[str, Any] = frame["data"]
    return data


def _rebuilt(frame: Mapping[str, Any]) -> GlideslopeError:
    said = frame.get("error") or {}
    return from_wire(
        str(said.get("code")),
        str(said.get("message")),
        kind=str(said.get("kind")),
        next=said.get("next"),
        fields=said.get("fields"),
    )


def _gone(client: Client, error: OSError) -> HostUnavailable:
    what = "gave no answer in time" if isinstance(error, TimeoutError) else f"went away ({error})"
    return HostUnavailable(
        f"the daemon (process {client.daemon.pid}) {what}: run the command again; its log is "
        f"{os.path.join(client.state_dir, 'daemon.log')}",
        pid=client.daemon.pid,
    )
