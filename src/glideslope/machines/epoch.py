"""Verify epochs of one scope: open, climb, join, supersede, go stale, end, and stay watched.

Theory of operation. A scope has at most one open epoch: an attempt to prove one snapshot. A rung
climbs only on news of the very rung being tried. When the climb is over the machine asks for one
more look at the workspace, and only the answer to that question lets a verdict be spoken: so a
green always names a snapshot that was still there. Any other look that shows different content
ends the epoch at once as stale. After its end an epoch is watched: its verdict never changes, but
whether it still speaks of the workspace does, and each flip is announced once.

Total: every fact is legal in every state, and news about what is over changes nothing.

Deliberately absent: how a snapshot is taken, how a rung is run, when to look. Runs that open no
epoch (`diagnose`, `test`) use `ladder` alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from glideslope.errors import InvalidInput
from glideslope.machines import ladder
from glideslope.model.ids import EnvironmentKey, EpochId, RunId, SnapshotId
from glideslope.model.result import CancelReason, RungResult, StaleReason, Verdict
from glideslope.model.run import Staleness
from glideslope.model.rung import LadderPlan, Rung

WATCHED_AT_MOST = 50  # ended runs of a scope that are still told when they go out of date


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a workspace holds, as far as a verdict depends on it."""

    snapshot: SnapshotId
    environment_key: EnvironmentKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """One attempt to prove one snapshot; open until it leaves the scope's state."""

    id: EpochId
    run: RunId
    content: Content
    question: str  # digest of policy and arguments: only an equal question is answered by this run
    plan: LadderPlan | None = None  # None: still being laid out
    results: tuple[RungResult, ...] = ()
    trying: Rung | None = None  # the rung being run
    capped_paths: bool = False
    confirming: bool = False  # the climb is over, the last look is pending


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """An ended run whose verdict may still speak of the workspace."""

    run: RunId
    content: Content
    current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeState:
    """Everything the machine remembers about one scope."""

    open: Epoch | None = None
    watched: tuple[Watched, ...] = ()  # oldest first
    now: Content | None = None  # as last seen; None: never looked


# Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Somebody wants this content verified; the ids serve if a new run has to be opened."""

    epoch: EpochId
    run: RunId
    content: Content
    question: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The plan of an epoch is known."""

    epoch: EpochId
    plan: LadderPlan
    capped_paths: bool = False  # only some of the changed paths are looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class RungEnded:
    """A rung of an epoch came to an end."""

    epoch: EpochId
    result: RungResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The workspace was digested anew."""

    content: Content
    paths: tuple[str, ...] = ()  # that differ from the open epoch's snapshot, sorted
    answers: EpochId | None = None  # the epoch whose LookAgain this look was begun for


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAsked:
    """Somebody, or a limit, wants a run to end."""

    run: RunId
    reason: CancelReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandoned:
    """An epoch cannot be brought to an end by climbing; never good news."""

    epoch: EpochId
    verdict: Verdict

    def __post_init__(self) -> None:
        """Raises InvalidInput for a verdict that only a climb can give."""
        if self.verdict in (Verdict.GREEN, Verdict.RED, Verdict.STALE):
            raise InvalidInput(
                f"an abandoned epoch is not {self.verdict}: report what broke", field="verdict"
            )


Fact: TypeAlias = Asked | Planned | RungEnded | Looked | CancelAsked | Abandoned


# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """Begin a run: lay out its plan and report `Planned`."""

    epoch: EpochId
    run: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRun:
    """Hand the asker the run that is already answering the same question."""

    run: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRung:
    """Run a rung and report `RungEnded`."""

    epoch: EpochId
    rung: Rung


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAgain:
    """Digest the workspace now and report `Looked` with this epoch as `answers`."""

    epoch: EpochId


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTasks:
    """Stop whatever runs for a run; it is over."""

    run: RunId
    reason: CancelReason


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnounceStale:
    """A run no longer speaks of what the workspace holds."""

    run: RunId
    content: Content
    staleness: Staleness


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnounceCurrent:
    """A run speaks of what the workspace holds again."""

    run: RunId
    content: Content


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRun:
    """Record the verdict, once the tasks of the run are gone. Exactly one per opened run."""

    run: RunId
    verdict: Verdict
    results: tuple[RungResult, ...]
    stale: Staleness | None = None
    cancelled: CancelReason | None = None


Effect: TypeAlias = (
    OpenRun | JoinRun | StartRung | LookAgain | CancelTasks | AnnounceStale | AnnounceCurrent | EndRun
)
Effects: TypeAlias = tuple[Effect, ...]


def step(state: ScopeState, fact: Fact) -> tuple[ScopeState, Effects]:
    """Advances the epochs of one scope by one fact.

    Returns:
        The next state, and what the engine must now do, in order.
    """
    match fact:
        case Asked():
            return _asked(state, fact)
        case Looked():
            return _looked(state, fact)
    epoch = state.open
    if epoch is None or not _concerns(fact, epoch):
        return state, ()
    match fact:
        case Planned() if epoch.plan is None:
            return _climb(state, replace(epoch, plan=fact.plan, capped_paths=fact.capped_paths))
        case RungEnded() if epoch.trying is not None and fact.result.rung is epoch.trying:
            return _climb(state, replace(epoch, results=(*epoch.results, fact.result), trying=None))
        case CancelAsked():
            return _end(state, epoch, Verdict.CANCELLED, cancelled=fact.reason)
        case Abandoned():
            return _end(state, epoch, fact.verdict)
        case _:
            return state, ()


def _concerns(fact: Planned | RungEnded | CancelAsked | Abandoned, epoch: Epoch) -> bool:
    return fact.run == epoch.run if isinstance(fact, CancelAsked) else fact.epoch == epoch.id


def _asked(state: ScopeState, fact: Asked) -> tuple[ScopeState, Effects]:
    epoch = state.open
    if epoch is not None and (epoch.content, epoch.question) == (fact.content, fact.question):
        return state, (JoinRun(run=epoch.run),)
    superseded: Effects = ()
    if epoch is not None:
        state, superseded = _stale(state, epoch, Staleness(reason=StaleReason.SUPERSEDED))
    state, flips = _see(state, fact.content)
    opened = Epoch(id=fact.epoch, run=fact.run, content=fact.content, question=fact.question)
    effects = (*superseded, *flips, OpenRun(epoch=opened.id, run=opened.run))
    return replace(state, open=opened), effects


def _looked(state: ScopeState, fact: Looked) -> tuple[ScopeState, Effects]:
    epoch = state.open
    ended: Effects = ()
    if epoch is not None and fact.content != epoch.content:
        state, ended = _stale(state, epoch, _what_changed(epoch.content, fact.content, fact.paths))
    elif epoch is not None and epoch.confirming and fact.answers == epoch.id:
        state, ended = _conclude(state, epoch)
    state, flips = _see(state, fact.content)
    return state, (*ended, *flips)


def _climb(state: ScopeState, epoch: Epoch) -> tuple[ScopeState, Effects]:
    """Goes for the next rung of a planned epoch, or for the last look when there is none."""
    assert epoch.plan is not None, "only a planned epoch climbs"
    rung = ladder.next_rung(epoch.plan, epoch.results)
    if rung is None:
        return replace(state, open=replace(epoch, confirming=True)), (LookAgain(epoch=epoch.id),)
    return replace(state, open=replace(epoch, trying=rung)), (StartRung(epoch=epoch.id, rung=rung),)


def _conclude(state: ScopeState, epoch: Epoch) -> tuple[ScopeState, Effects]:
    """Speaks the verdict of a climb that is over, on content just seen to be still there."""
    assert epoch.plan is not None, "only a planned epoch is confirmed"
    settled = ladder.harden(epoch.plan.policy, ladder.settle(epoch.plan, epoch.results))
    verdict = ladder.fold_verdict(epoch.plan, settled, capped_paths=epoch.capped_paths)
    return _end(state, replace(epoch, results=settled), verdict)


def _stale(state: ScopeState, epoch: Epoch, staleness: Staleness) -> tuple[ScopeState, Effects]:
    announced = AnnounceStale(run=epoch.run, content=epoch.content, staleness=staleness)
    state, ended = _end(state, epoch, Verdict.STALE, stale=staleness)
    return state, (announced, *ended)


def _end(
    state: ScopeState,
    epoch: Epoch,
    verdict: Verdict,
    *,
    stale: Staleness | None = None,
    cancelled: CancelReason | None = None,
) -> tuple[ScopeState, Effects]:
    """Closes the open epoch; from here on it is only watched."""
    results = epoch.results if epoch.plan is None else ladder.settle(epoch.plan, epoch.results)
    ended = EndRun(run=epoch.run, verdict=verdict, results=results, stale=stale, cancelled=cancelled)
    superseded = stale is not None and stale.reason is StaleReason.SUPERSEDED
    watched = state.watched
    if not superseded:  # a newer run speaks for the scope; nobody waits for this one's return
        watched = (*watched, Watched(run=epoch.run, content=epoch.content, current=stale is None))
    closed = replace(state, open=None, watched=watched[-WATCHED_AT_MOST:])
    if epoch.confirming:
        return closed, (ended,)
    reason = cancelled or CancelReason.SUPERSEDED
    return closed, (CancelTasks(run=epoch.run, reason=reason), ended)


def _see(state: ScopeState, now: Content) -> tuple[ScopeState, Effects]:
    """Compares every watched run with what the workspace holds, and announces the flips."""
    flips = tuple(_flip(kept, now) for kept in state.watched if kept.current != (kept.content == now))
    watched = tuple(replace(kept, current=kept.content == now) for kept in state.watched)
    return replace(state, watched=watched, now=now), flips


def _flip(kept: Watched, now: Content) -> AnnounceStale | AnnounceCurrent:
    if kept.content == now:
        return AnnounceCurrent(run=kept.run, content=kept.content)
    return AnnounceStale(run=kept.run, content=kept.content, staleness=_what_changed(kept.content, now))


def _what_changed(was: Content, now: Content, paths: Iterable[str] = ()) -> Staleness:
    if was.snapshot != now.snapshot:
        return Staleness(reason=StaleReason.WRITE_IN_EPOCH, paths=tuple(sorted(paths)))
    return Staleness(reason=StaleReason.ENVIRONMENT_CHANGED)


def check(state: ScopeState) -> None:
    """Asserts what must hold of every state; for tests and for a monitor.

    Raises:
        AssertionError: An invariant is broken.
    """
    epoch = state.open
    assert len(state.watched) <= WATCHED_AT_MOST, "ended runs pile up"
    assert len({kept.run for kept in state.watched}) == len(state.watched), "a run ended twice"
    assert all(kept.current == (kept.content == state.now) for kept in state.watched), "a flip was missed"
    if epoch is None:
        return
    assert epoch.run not in {kept.run for kept in state.watched}, "a run is open and over"
    assert epoch.content == state.now, "an open epoch does not match the workspace"
    if epoch.plan is None:
        assert epoch.trying is None, "a rung runs without a plan"
        assert not epoch.confirming, "a climb is over before it began"
        return
    assert (epoch.trying is None) == epoch.confirming, "an epoch neither climbs nor waits for the last look"
    assert epoch.trying == ladder.next_rung(epoch.plan, epoch.results), "not the cheapest rung still to run"
