"""The one queue of environment work: admit, merge, order, start, cancel, end.

Theory of operation. Tickets wait in three lanes; a lower lane overtakes a higher one, and inside a
lane the first admitted goes first. At most `cap` tickets run. Work with a key that is already
waiting or running is not queued again: the asker joins, and the ticket has one more holder. A run
that is cancelled lets go of its tickets; only a ticket nobody holds any more is cancelled. A running
ticket keeps its slot until its processes are gone, which the engine reports as `Ended`.

Every admitted ticket ends exactly once. Total: news about tickets that are not there changes nothing.

Deliberately absent: what a task does, how long it may take, what its result means.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never

from glideslope.errors import InvalidInput
from glideslope.model.ids import RunId, TaskId
from glideslope.model.result import CancelReason
from glideslope.model.task import Lane, TaskResult, TaskSpec, TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """A task in the queue."""

    spec: TaskSpec
    number: int  # order of admission, from 1
    holders: tuple[RunId | None, ...]  # who wants it, in order of asking; None: upkeep of no run
    cancelling: CancelReason | None = None  # running, told to stop, not gone yet

    @property
    def place(self) -> tuple[Lane, int]:
        """What the line is sorted by."""
        return self.spec.lane, self.number


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Everything that waits or runs."""

    cap: int = 2  # tickets running at once
    waiting: tuple[Ticket, ...] = ()  # in the order they will start
    running: tuple[Ticket, ...] = ()  # in the order they were started
    admitted: int = 0  # tickets ever admitted
    background_held: bool = False  # nothing of the background lane starts
    closed: bool = False  # shutting down: nothing new is taken

    def __post_init__(self) -> None:
        """Raises InvalidInput for a cap that would let nothing run."""
        if self.cap < 1:
            raise InvalidInput(
                f"a cap of {self.cap} lets nothing run: use 1 or more", field="runner_max_concurrency"
            )


# Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """Somebody wants a task done."""

    spec: TaskSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A started task is over and its processes are gone."""

    task: TaskId
    result: TaskResult

    def __post_init__(self) -> None:
        """Raises InvalidInput for a result that is no ending."""
        if not self.result.state.ended:
            raise InvalidInput(f"{self.result.state} is no ending: report progress instead", field="state")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCancelled:
    """A run wants nothing more."""

    run: RunId
    reason: CancelReason


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCancelled:
    """One task is to end, whoever holds it."""

    task: TaskId
    reason: CancelReason


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundHeld:
    """The background lane is to wait, or may go on."""

    held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The engine shuts down."""


Fact: TypeAlias = Submitted | Ended | RunCancelled | TaskCancelled | BackgroundHeld | Closed


# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTask:
    """The asker waits for a task that is already there; no task of the asked-for id will exist."""

    asked: TaskId
    task: TaskId
    run: RunId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnounceQueued:
    """A task was admitted."""

    spec: TaskSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTask:
    """Run the task and report `Ended`."""

    spec: TaskSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTask:
    """End a running task's whole process tree and report `Ended`."""

    task: TaskId
    reason: CancelReason


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTask:
    """Publish the one ending of a task and wake all who hold it."""

    spec: TaskSpec
    result: TaskResult
    holders: tuple[RunId | None, ...]


Effect: TypeAlias = JoinTask | AnnounceQueued | StartTask | StopTask | EndTask
Effects: TypeAlias = tuple[Effect, ...]


def step(queue: Queue, fact: Fact) -> tuple[Queue, Effects]:
    """Advances the queue by one fact.

    Returns:
        The next state, and what the engine must now do, in order.
    """
    match fact:
        case Submitted():
            queue, effects = _admit(queue, fact.spec)
        case Ended():
            queue, effects = _end(queue, fact)
        case RunCancelled():
            queue, effects = _let_go(queue, fact)
        case TaskCancelled():
            queue, effects = _drop(queue, frozenset({fact.task}), fact.reason)
        case BackgroundHeld():
            queue, effects = replace(queue, background_held=fact.held), ()
        case Closed():
            queue, effects = _close(queue)
        case _:  # pragma: no cover
            assert_never(fact)
    queue, started = _start(queue)
    return queue, (*effects, *started)


def _admit(queue: Queue, spec: TaskSpec) -> tuple[Queue, Effects]:
    known = _joinable(queue, spec)
    if known is not None:
        return _join(queue, known, spec)
    ticket = Ticket(spec=spec, number=queue.admitted + 1, holders=(spec.run,))
    queue = replace(queue, admitted=ticket.number)
    if queue.closed:
        return queue, (AnnounceQueued(spec=spec), _cancelled(ticket, CancelReason.SHUTDOWN))
    return replace(queue, waiting=_in_line(*queue.waiting, ticket)), (AnnounceQueued(spec=spec),)


def _joinable(queue: Queue, spec: TaskSpec) -> Ticket | None:
    """The ticket that will answer an equal key; not one that is being stopped."""
    pending = (*queue.running, *queue.waiting)
    return next((held for held in pending if held.spec.key == spec.key and held.cancelling is None), None)


def _join(queue: Queue, known: Ticket, spec: TaskSpec) -> tuple[Queue, Effects]:
    """Adds a holder; a waiting ticket moves up to the most urgent lane of those who want it."""
    holders = known.holders if spec.run in known.holders else (*known.holders, spec.run)
    urgent = replace(known.spec, lane=min(known.spec.lane, spec.lane))
    joined = JoinTask(asked=spec.id, task=known.spec.id, run=spec.run)
    return _replaced(queue, known, replace(known, spec=urgent, holders=holders)), (joined,)


def _end(queue: Queue, fact: Ended) -> tuple[Queue, Effects]:
    over = next((held for held in queue.running if held.spec.id == fact.task), None)
    if over is None:
        return queue, ()
    running = tuple(held for held in queue.running if held is not over)
    ended = EndTask(spec=over.spec, result=fact.result, holders=over.holders)
    return replace(queue, running=running), (ended,)


def _let_go(queue: Queue, fact: RunCancelled) -> tuple[Queue, Effects]:
    """Cancels what only this run wanted; what others hold too goes on for them."""
    sole = frozenset(held.spec.id for held in (*queue.running, *queue.waiting) if held.holders == (fact.run,))
    queue, effects = _drop(queue, sole, fact.reason)
    waiting, running = (
        tuple(_without(held, fact.run) for held in tickets) for tickets in (queue.waiting, queue.running)
    )
    return replace(queue, waiting=waiting, running=running), effects


def _without(ticket: Ticket, run: RunId) -> Ticket:
    others = tuple(holder for holder in ticket.holders if holder != run)
    return replace(ticket, holders=others) if others else ticket  # the last holder hears of the ending


def _drop(queue: Queue, tasks: frozenset[TaskId], reason: CancelReason) -> tuple[Queue, Effects]:
    """Cancels tickets: waiting ones end here and now, running ones are told to stop once."""
    dropped = tuple(held for held in queue.waiting if held.spec.id in tasks)
    told = tuple(held for held in queue.running if held.spec.id in tasks and held.cancelling is None)
    queue = replace(queue, waiting=tuple(held for held in queue.waiting if held not in dropped))
    for held in told:
        queue = _replaced(queue, held, replace(held, cancelling=reason))
    stops = tuple(StopTask(task=held.spec.id, reason=reason) for held in told)
    return queue, (*(_cancelled(held, reason) for held in dropped), *stops)


def _close(queue: Queue) -> tuple[Queue, Effects]:
    everything = frozenset(held.spec.id for held in (*queue.waiting, *queue.running))
    return _drop(replace(queue, closed=True), everything, CancelReason.SHUTDOWN)


def _start(queue: Queue) -> tuple[Queue, Effects]:
    """Fills the free slots from the head of the line."""
    ready = tuple(held for held in queue.waiting if not _is_held(queue, held))
    started = ready[: max(0, queue.cap - len(queue.running))]
    waiting = tuple(held for held in queue.waiting if held not in started)
    queue = replace(queue, waiting=waiting, running=(*queue.running, *started))
    return queue, tuple(StartTask(spec=held.spec) for held in started)


def _is_held(queue: Queue, ticket: Ticket) -> bool:
    return queue.background_held and ticket.spec.lane is Lane.BACKGROUND


def _replaced(queue: Queue, old: Ticket, new: Ticket) -> Queue:
    waiting = _in_line(*(new if held is old else held for held in queue.waiting))
    running = tuple(new if held is old else held for held in queue.running)
    return replace(queue, waiting=waiting, running=running)


def _in_line(*tickets: Ticket) -> tuple[Ticket, ...]:
    return tuple(sorted(tickets, key=lambda held: held.place))


def _cancelled(ticket: Ticket, reason: CancelReason) -> EndTask:
    result = TaskResult(state=TaskState.CANCELLED, reason=reason.value, summary="never started")
    return EndTask(spec=ticket.spec, result=result, holders=ticket.holders)


def check(queue: Queue) -> None:
    """Asserts what must hold of every state; for tests and for a monitor.

    Raises:
        AssertionError: An invariant is broken.
    """
    pending = (*queue.running, *queue.waiting)
    keys = [held.spec.key for held in pending if held.cancelling is None]
    assert len(queue.running) <= queue.cap, "more tasks run than the cap allows"
    assert len(set(keys)) == len(keys), "equal work is queued twice"
    assert len({held.spec.id for held in pending}) == len(pending), "a task is in the queue twice"
    assert queue.waiting == _in_line(*queue.waiting), "the line is out of order"
    assert all(held.holders for held in pending), "a task that nobody holds"
    assert all(len(set(held.holders)) == len(held.holders) for held in pending), "a holder counted twice"
    assert all(held.cancelling is None for held in queue.waiting), "a cancelled task still waits"
    idle = len(queue.running) < queue.cap
    assert not (idle and any(not _is_held(queue, held) for held in queue.waiting)), "a free slot is wasted"
    if queue.closed:
        assert not queue.waiting, "work waits in a closed queue"
        assert all(held.cancelling for held in queue.running), "work goes on in a closed queue"
