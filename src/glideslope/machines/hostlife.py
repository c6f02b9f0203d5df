"""The life of one supervised helper process: starting, ready, busy, draining, dead.

Theory of operation. Each process the machine asks for has a number; news that carries another
number is about a process that is already gone, and changes nothing. A process that stays silent
too long is killed, which ends as a death like any other. Every process ends once: a death nobody
asked for is announced exactly once, with the request it took along. After a death the next start
waits, longer each time; deaths in a row with no request served in between are counted, and beyond
the cap no start is tried until the window has passed: the work is then done without a host.

A request is never repeated from here. Times are seconds of the injected monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias, assert_never


class HostPhase(StrEnum):
    """Where a host stands."""

    STOPPED = "stopped"  # not wanted, no process
    STARTING = "starting"
    READY = "ready"
    BUSY = "busy"
    DRAINING = "draining"  # on its way out; takes nothing new
    DEAD = "dead"  # the last process died; waiting to be started again


_ALIVE = (HostPhase.STARTING, HostPhase.READY, HostPhase.BUSY, HostPhase.DRAINING)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLimits:
    """How patient to be."""

    start_s: float = 10.0  # from the start to the first sign of readiness
    silence_s: float = 30.0  # without a beat or an answer
    restarts: int = 3  # deaths in a row, inside the window, after which a start is still tried
    window_s: float = 600.0
    first_delay_s: float = 0.1  # doubles with each death in a row
    longest_delay_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """Everything the machine remembers about one host."""

    limits: HostLimits = field(default_factory=HostLimits)
    phase: HostPhase = HostPhase.STOPPED
    number: int = 0  # of the process last asked for
    request: str | None = None  # the one being served
    heard_at: float = 0.0  # start, or last sign of life
    doomed: bool = False  # killed for its silence: its end is a death
    deaths: tuple[
        float, ...
    ] = ()  # in a row, oldest first; emptied by a served request; at most restarts + 1
    retry_at: float = 0.0  # no start before this, after a death

    @property
    def alive(self) -> bool:
        """Whether there is, or is about to be, a process."""
        return self.phase in _ALIVE


# Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class HostWanted:
    """Somebody has work for the host."""

    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReady:
    """A process says it can take requests."""

    number: int
    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestGiven:
    """A request was handed in; only a ready host takes it."""

    request: str
    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A process answered a request."""

    number: int
    request: str
    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A process showed that it is alive."""

    number: int
    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """A process is gone, by whatever cause; also one that could not be started."""

    number: int
    now: float
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainAsked:
    """The host is to finish what it does and go."""

    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked:
    """Time has passed."""

    now: float


Fact: TypeAlias = HostWanted | HostReady | RequestGiven | Answered | Beat | Exited | DrainAsked | Ticked


# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class StartHost:
    """Start a process under this number."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRequest:
    """Pass a request on to the process."""

    number: int
    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KillHost:
    """End the process and all it started; report `Exited`."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnounceDied:
    """A process died unasked; the request it served, if any, is lost with it."""

    number: int
    request: str | None
    exit_code: int | None
    signal: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoCold:
    """Do the work without a host: too many deaths in a row."""

    until: float  # when a start will be tried again


Effect: TypeAlias = StartHost | SendRequest | KillHost | AnnounceDied | GoCold
Effects: TypeAlias = tuple[Effect, ...]


def step(host: HostState, fact: Fact) -> tuple[HostState, Effects]:
    """Advances the life of a host by one fact.

    Returns:
        The next state, and what the engine must now do, in order.
    """
    match fact:
        case HostWanted():
            return _wanted(host, fact.now)
        case RequestGiven():
            return _given(host, fact)
        case DrainAsked():
            return _drain(host)
        case Ticked():
            return _tick(host, fact.now)
        case HostReady() | Answered() | Beat() | Exited():
            current = host.alive and fact.number == host.number
            return _news(host, fact) if current else (host, ())
        case _:  # pragma: no cover
            assert_never(fact)


def _news(host: HostState, fact: HostReady | Answered | Beat | Exited) -> tuple[HostState, Effects]:
    """Takes news of the process there is now."""
    match fact:
        case HostReady():
            ready = HostPhase.READY if host.phase is HostPhase.STARTING else host.phase
            return replace(host, phase=ready, heard_at=fact.now), ()
        case Answered():
            return _answered(host, fact)
        case Beat():
            return replace(host, heard_at=fact.now), ()
        case Exited():
            return _exited(host, fact)
        case _:  # pragma: no cover
            assert_never(fact)


def _wanted(host: HostState, now: float) -> tuple[HostState, Effects]:
    if host.alive:
        return host, ()
    recent = tuple(at for at in host.deaths if now - at < host.limits.window_s)
    if len(recent) > host.limits.restarts:
        oldest_to_forget = recent[len(recent) - host.limits.restarts - 1]
        return host, (GoCold(until=oldest_to_forget + host.limits.window_s),)
    if now < host.retry_at:
        return host, ()
    number = host.number + 1
    started = replace(
        host, phase=HostPhase.STARTING, number=number, heard_at=now, deaths=recent, doomed=False
    )
    return started, (StartHost(number=number),)


def _given(host: HostState, fact: RequestGiven) -> tuple[HostState, Effects]:
    if host.phase is not HostPhase.READY:
        return host, ()
    busy = replace(host, phase=HostPhase.BUSY, request=fact.request, heard_at=fact.now)
    return busy, (SendRequest(number=host.number, request=fact.request),)


def _answered(host: HostState, fact: Answered) -> tuple[HostState, Effects]:
    if fact.request != host.request:
        return replace(host, heard_at=fact.now), ()
    served = replace(host, request=None, heard_at=fact.now, deaths=())
    if host.phase is not HostPhase.DRAINING:
        return replace(served, phase=HostPhase.READY), ()
    return served, () if host.doomed else (KillHost(number=host.number),)


def _drain(host: HostState) -> tuple[HostState, Effects]:
    """A busy host first answers; one without a process is simply no longer wanted."""
    if host.phase is HostPhase.DRAINING:
        return host, ()
    if not host.alive:
        return replace(host, phase=HostPhase.STOPPED), ()
    draining = replace(host, phase=HostPhase.DRAINING)
    return draining, () if host.request is not None else (KillHost(number=host.number),)


def _exited(host: HostState, fact: Exited) -> tuple[HostState, Effects]:
    asked_for = host.phase is HostPhase.DRAINING and host.request is None and not host.doomed
    if asked_for:
        return replace(host, phase=HostPhase.STOPPED), ()
    died = AnnounceDied(
        number=host.number, request=host.request, exit_code=fact.exit_code, signal=fact.signal
    )
    deaths = (*host.deaths, fact.now)
    limits = host.limits
    delay_s = min(limits.longest_delay_s, limits.first_delay_s * 2 ** (len(deaths) - 1))
    dead = replace(
        host, phase=HostPhase.DEAD, request=None, doomed=False, deaths=deaths, retry_at=fact.now + delay_s
    )
    return dead, (died,)


def _tick(host: HostState, now: float) -> tuple[HostState, Effects]:
    """Kills what has been silent too long, once."""
    limit_at = deadline(host)
    if not host.alive or limit_at is None or now < limit_at:
        return host, ()
    return replace(host, phase=HostPhase.DRAINING, doomed=True), (KillHost(number=host.number),)


def deadline(host: HostState) -> float | None:
    """When to look again: a live process has been silent too long, or a dead one may be started.

    Returns:
        A time of the clock; None while there is nothing to wait for.
    """
    if host.phase is HostPhase.DEAD:
        return host.retry_at
    asked_to_go = host.phase is HostPhase.DRAINING and host.request is None
    if not host.alive or host.doomed or asked_to_go:
        return None
    patience_s = host.limits.start_s if host.phase is HostPhase.STARTING else host.limits.silence_s
    return host.heard_at + patience_s


def check(host: HostState) -> None:
    """Asserts what must hold of every state; for tests and for a monitor.

    Raises:
        AssertionError: An invariant is broken.
    """
    assert host.phase is not HostPhase.BUSY or host.request is not None, "busy with nothing"
    assert host.request is None or host.phase in (HostPhase.BUSY, HostPhase.DRAINING), "a lost request"
    assert not host.doomed or host.phase is HostPhase.DRAINING, "doomed and still taking work"
    assert len(host.deaths) <= host.limits.restarts + 1, "started again in spite of the cap"
