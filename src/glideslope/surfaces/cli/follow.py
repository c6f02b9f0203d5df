"""Starting a run and staying with it until its verdict.

Everything that can happen meanwhile (the run was opened, an event came, a signal came, something
failed) arrives in one queue and is handled in one place, one after another. The threads that wait
for the engine decide nothing; a signal handler only puts a word into the queue.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from types import FrameType

from glideslope.engine.actions import Cancel, Diagnose, GetRun, RunView, Started, Test, Verify
from glideslope.errors import EnvironmentBroken, GlideslopeError
from glideslope.model.event import AgentRunCompleted, Recorded
from glideslope.model.ids import RunId
from glideslope.surfaces.cli.app import App
from glideslope.surfaces.cli.output import Mode
from glideslope.surfaces.cli.progress import Progress
from glideslope.surfaces.session import Session, expect
from glideslope.surfaces.wire.event import wire_event

PULSE_S = 1.0
UNHEARD = 141  # our reader went away before there was a verdict: not to be taken for one


class Interrupted(KeyboardInterrupt):
    """A signal ended the waiting; the message says what became of the run."""


@dataclass(frozen=True, slots=True)
class _Signal:
    """Somebody wants us to stop."""


@dataclass(frozen=True, slots=True)
class _Opened:
    started: Started


@dataclass(frozen=True, slots=True)
class _Seen:
    recorded: Recorded


@dataclass(frozen=True, slots=True)
class _StreamEnded:
    error: GlideslopeError | None


@dataclass(frozen=True, slots=True)
class _Failed:
    error: BaseException


_News = _Signal | _Opened | _Seen | _StreamEnded | _Failed


class _Follower:
    """Waits for one run."""

    def __init__(self, app: App, action: Verify | Diagnose | Test, *, tied: bool) -> None:
        self._app = app
        self._action = action
        self._tied = tied
        self._news: SimpleQueue[_News] = SimpleQueue()
        self._progress = Progress(app.output, now_s=app.monotonic_s())
        self._started: Started | None = None
        self._signals = 0
        self._sessions: list[Session] = []

    def wait(self) -> RunView:
        """Starts the run and returns it once it has ended."""
        with _signals_into(self._news):
            try:
                self._in_thread(self._open)
                while (found := self._handle(self._next())) is None:
                    pass
                return found
            finally:
                self._progress.close()
                for session in self._sessions:
                    session.close()

    def _next(self) -> _News | None:
        try:
            return self._news.get(timeout=PULSE_S)
        except Empty:
            return None

    def _handle(self, news: _News | None) -> RunView | None:
        match news:
            case None:
                self._progress.pulse(self._app.monotonic_s())
            case _Signal():
                self._signals += 1
                self._stop()
            case _Opened(started=started):
                self._started = started
                self._in_thread(lambda: self._read(started.seq))
                if self._signals:
                    self._stop()
            case _Seen(recorded=recorded):
                return self._see(recorded)
            case _StreamEnded(error=error):
                return self._without_stream(error)
            case _Failed(error=error):
                raise error
        return None

    def _see(self, recorded: Recorded) -> RunView | None:
        if getattr(recorded.event, "run_id", None) != self._run_id:
            return None
        if self._app.output.mode is Mode.NDJSON:
            self._app.output.event(wire_event(recorded))
        self._progress.event(recorded, self._app.monotonic_s())
        return self._view() if isinstance(recorded.event, AgentRunCompleted) else None

    @property
    def _run_id(self) -> RunId | None:
        return self._started.run_id if self._started else None

    def _stop(self) -> None:
        """The first signal cancels the run we started; a second one, or a run of others, ends the
        waiting only."""
        if self._signals > 1:
            raise Interrupted(self._left_behind("may go on"))
        if self._started is None:
            return  # it is being opened: cancelled as soon as it has a name
        if self._started.joined:
            raise Interrupted(self._left_behind("was started by others and goes on"))
        cancel = Cancel(caller=self._app.caller(), run_id=self._started.run_id)
        self._in_thread(lambda: self._on_session(lambda session: session.act(cancel)))

    def _left_behind(self, what: str) -> str:
        return f"stopped waiting; run {self._run_id} {what}" if self._run_id else "stopped waiting"

    def _without_stream(self, error: GlideslopeError | None) -> RunView:
        """The engine went away, or closed the stream. Another may know how the run ended."""
        view = self._view()
        if view.run.verdict is None:
            raise error or EnvironmentBroken(
                "the engine closed the stream of events before the run ended: look at it again",
                next=f"glideslope run {self._run_id} --wait",
            )
        return view

    def _view(self) -> RunView:
        assert self._run_id is not None, "only an opened run is looked at"
        return self._app.ask(GetRun(run_id=self._run_id), RunView)

    # In threads of their own

    def _open(self) -> None:
        session = self._session()
        self._news.put(_Opened(expect(session.act(self._action, tied=self._tied), Started)))

    def _read(self, after: int) -> None:
        try:
            with self._session().events(after=after, follow=True) as stream:
                for recorded in stream:
                    self._news.put(_Seen(recorded))
        except GlideslopeError as error:
            self._news.put(_StreamEnded(error))
        else:
            self._news.put(_StreamEnded(None))

    def _on_session(self, use: Callable[[Session], object]) -> None:
        use(self._session())

    def _session(self) -> Session:
        """A session that lives as long as the waiting: a tied run hangs on it."""
        session = self._app.connect.session()
        self._sessions.append(session)
        return session

    def _in_thread(self, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                self._news.put(_Failed(error))

        threading.Thread(target=guarded, daemon=True).start()


@contextmanager
def _signals_into(news: SimpleQueue[_News]) -> Iterator[None]:
    """While inside, SIGINT and SIGTERM become news; `SimpleQueue.put` may be called by a handler."""

    def handle(number: int, frame: FrameType | None) -> None:
        news.put(_Signal())

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def start_and_wait(app: App, action: Verify | Diagnose | Test, *, tied: bool) -> RunView:
    """Starts a run and waits for its verdict, showing progress; a signal cancels it.

    Raises:
        Interrupted: A second signal came, or the run belongs to others.
        GlideslopeError: The run could not be started, or its engine is gone for good.
    """
    app.exit_code = UNHEARD
    return _Follower(app, action, tied=tied).wait()


def start_only(app: App, action: Verify | Diagnose | Test) -> RunView:
    """Starts a run and returns it as it stands."""
    started = app.ask(action, Started)
    return app.ask(GetRun(run_id=started.run_id), RunView)
