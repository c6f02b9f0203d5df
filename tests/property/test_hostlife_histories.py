"""Every short history of one host: each process ends once, each request has one fate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import pytest

from glideslope.machines import hostlife

LIMITS = {
    "start_s": 3.0,
    "silence_s": 5.0,
    "restarts": 2,
    "window_s": 40.0,
    "first_delay_s": 2.0,
    "longest_delay_s": 3.0,
}


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What an observer of facts and effects knows about a history."""

    now: float = 0.0
    started: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()
    killed: tuple[int, ...] = ()
    sent: tuple[str, ...] = ()
    fates: tuple[str, ...] = ()  # requests answered, or announced lost
    unserved: tuple[float, ...] = ()  # deaths since the last served request
    last_death_at: float | None = None
    heard_at: float = 0.0
    ready: bool = False
    drain: bool = False

    @property
    def alive(self) -> bool:
        return len(self.gone) < len(self.started)


def facts(m: ModuleType, seen: Seen) -> Iterator[Any]:
    now, number = seen.now, len(seen.started)
    yield m.HostWanted(now=now)
    yield m.RequestGiven(request=f"q{len(seen.sent) + 1}", now=now)
    for which in (number, number - 1):
        yield m.HostReady(number=which, now=now)
        yield m.Answered(number=which, request=f"q{len(seen.sent)}", now=now)
        yield m.Exited(number=which, now=now, signal=9)
    yield m.Answered(number=number, request="another", now=now)
    yield m.Beat(number=number, now=now)
    yield m.DrainAsked(now=now)
    for later in (1.0, 4.0, 50.0):
        yield m.Ticked(now=now + later)


def judge(m: ModuleType, seen: Seen, before: Any, fact: Any, after: Any, effects: tuple[Any, ...]) -> Seen:
    m.check(after)
    seen = replace(seen, now=fact.now)
    news = isinstance(fact, (m.HostReady, m.Answered, m.Beat, m.Exited))
    if news and (fact.number != len(seen.started) or not seen.alive):
        assert (after, effects) == (before, ()), "news of a process that is gone counted"
        return seen
    assert len(effects) <= 1
    died = [effect for effect in effects if isinstance(effect, m.AnnounceDied)]
    if news:
        seen = replace(seen, heard_at=fact.now)
    if isinstance(fact, m.HostReady):
        seen = replace(seen, ready=True)
    if isinstance(fact, m.DrainAsked):
        seen = replace(seen, drain=True)
    if isinstance(fact, m.Answered) and before.request == fact.request:
        seen = replace(seen, fates=(*seen.fates, fact.request), unserved=())
    if isinstance(fact, m.Exited):
        seen = judge_exit(m, seen, before, after, died)
    else:
        assert not died, "a death without an exit"
    if isinstance(fact, m.Ticked):
        judge_tick(m, seen, before, effects)
    for effect in effects:
        seen = judge_effect(m, seen, before, effect)
    lost = set(seen.sent) - set(seen.fates)
    assert lost == ({after.request} if after.request is not None else set()), "a request without a fate"
    return seen


def judge_exit(m: ModuleType, seen: Seen, before: Any, after: Any, died: list[Any]) -> Seen:
    asked = len(seen.started) in seen.killed and not before.doomed
    assert bool(died) != asked, "a death must be announced, an end that was asked for must not"
    assert (after.phase == "dead") == bool(died)
    seen = replace(seen, gone=(*seen.gone, len(seen.started)), drain=False, ready=False)
    if not died:
        return seen
    (death,) = died
    assert (death.number, death.request, death.signal) == (len(seen.started), before.request, 9)
    fates = seen.fates if death.request is None else (*seen.fates, death.request)
    return replace(seen, fates=fates, unserved=(*seen.unserved, seen.now), last_death_at=seen.now)


def judge_tick(m: ModuleType, seen: Seen, before: Any, effects: tuple[Any, ...]) -> None:
    patience_s = LIMITS["silence_s"] if seen.ready else LIMITS["start_s"]
    if seen.alive and len(seen.started) not in seen.killed:
        overdue = seen.now - seen.heard_at >= patience_s
        assert bool(effects) == overdue, "a silent host lives on, or one that spoke was killed"
    else:
        assert not effects


def judge_effect(m: ModuleType, seen: Seen, before: Any, effect: Any) -> Seen:
    recent = [at for at in seen.unserved if seen.now - at < LIMITS["window_s"]]
    if isinstance(effect, m.StartHost):
        assert not seen.alive, "two processes of one host"
        assert effect.number == len(seen.started) + 1
        assert len(recent) <= LIMITS["restarts"], "started in spite of the cap"
        if seen.last_death_at is not None:
            delay_s = 3.0 if len(seen.unserved) > 1 else 2.0
            assert seen.now >= seen.last_death_at + delay_s, "started without waiting"
        return replace(seen, started=(*seen.started, effect.number), heard_at=seen.now, ready=False)
    if isinstance(effect, m.KillHost):
        assert seen.alive
        assert effect.number not in seen.killed, "killed twice"
        return replace(seen, killed=(*seen.killed, effect.number))
    if isinstance(effect, m.SendRequest):
        assert seen.ready
        assert not seen.drain, "a host on its way out took a request"
        assert set(seen.sent) == set(seen.fates), "two requests at once"
        return replace(seen, sent=(*seen.sent, effect.request), heard_at=seen.now)
    if isinstance(effect, m.GoCold):
        assert len(recent) > LIMITS["restarts"], "cold without need"
        for at, allowed in ((effect.until, True), (effect.until - 0.5, False)):
            counted = [death for death in seen.unserved if at - death < LIMITS["window_s"]]
            assert (len(counted) <= LIMITS["restarts"]) == allowed, (
                "not the first moment a start may be tried"
            )
    return seen


def explore(m: ModuleType, host: Any, seen: Seen, depth: int) -> None:
    for fact in facts(m, seen):
        after, effects = m.step(host, fact)
        known = judge(m, seen, host, fact, after, effects)
        due_at = m.deadline(after)
        if after.alive and len(known.started) not in known.killed:
            patience_s = LIMITS["silence_s"] if known.ready else LIMITS["start_s"]
            assert due_at == known.heard_at + patience_s
        elif not after.alive and after.phase == "dead":
            assert due_at > known.last_death_at
        else:
            assert due_at is None
        if depth > 1:
            explore(m, after, known, depth - 1)


def beginnings(m: ModuleType) -> Iterator[list[Any]]:
    """Nothing; a busy host; one on its way out; rows of two and of three deaths; a busy one after two."""
    wanted, ready = m.HostWanted(now=0.0), m.HostReady(number=1, now=1.0)
    deaths = [
        [m.HostWanted(now=10.0 * number), m.Exited(number=number, now=10.0 * number + 1, signal=9)]
        for number in (1, 2, 3)
    ]
    yield []
    yield [wanted, ready, m.RequestGiven(request="q1", now=1.0)]
    yield [wanted, ready, m.DrainAsked(now=1.0)]
    yield [*deaths[0], *deaths[1], m.Ticked(now=23.5)]
    yield [*deaths[0], *deaths[1], *deaths[2], m.Ticked(now=40.0)]
    again = m.HostWanted(now=30.0), m.HostReady(number=3, now=30.0), m.RequestGiven(request="q1", now=30.0)
    yield [*deaths[0], *deaths[1], *again, m.Answered(number=3, request="q1", now=31.0)]


def check_histories(m: ModuleType) -> None:
    """All histories of three facts after each of the beginnings."""
    for beginning in beginnings(m):
        host, seen = m.HostState(limits=m.HostLimits(**LIMITS)), Seen()
        for fact in beginning:
            before = host
            host, effects = m.step(before, fact)
            seen = judge(m, seen, before, fact, host, effects)
        explore(m, host, seen, 3)


def test_every_short_history_keeps_the_invariants() -> None:
    check_histories(hostlife)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("host.alive and fact.number == host.number", "host.alive"),
        ("if len(recent) > host.limits.restarts:", "if False:"),
        (" if now - at < host.limits.window_s)", ")"),
        ("recent[len(recent) - host.limits.restarts - 1]", "recent[-1]"),
        ("    if now < host.retry_at:\n        return host, ()\n", ""),
        ("heard_at=fact.now, deaths=())", "heard_at=fact.now)"),
        ("if fact.request != host.request:", "if False:"),
        ("if host.phase is not HostPhase.READY:", "if not host.alive:"),
        ("doomed=True), (KillHost", "doomed=False), (KillHost"),
        ("else (KillHost(number=host.number),)\n\n\ndef _exited", "else ()\n\n\ndef _exited"),
        ("and host.request is None and not host.doomed", "and not host.doomed"),
        ("2 ** (len(deaths) - 1)", "1"),
        ("if not host.alive or host.doomed or asked_to_go:", "if not host.alive or asked_to_go:"),
    ],
)
def test_a_planted_bug_is_found(
    plant: Callable[[ModuleType, str, str], ModuleType], old: str, new: str
) -> None:
    with pytest.raises(AssertionError):
        check_histories(plant(hostlife, old, new))
