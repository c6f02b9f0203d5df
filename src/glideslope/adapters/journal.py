"""The journal in SQLite: events, runs as they last stood, snapshots, proofs.

Write-ahead logging with `synchronous=NORMAL`: what was committed survives the death of this
process at any moment; a power cut may take the last moments, never the order. One transaction per
event holds the event, its number and what follows from it, so there is nothing to repair after a
kill. Numbers are never given twice: the newest event is never removed.

A file that SQLite finds damaged is moved aside once, by the next opening, and a new one begun: the
journal of a verifier is worth keeping, but not worth refusing to work for.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec

from glideslope import codec
from glideslope.adapters.state import unavailable
from glideslope.errors import StateUnavailable, Undecodable, UnknownId
from glideslope.machines.views import with_rung
from glideslope.model.event import (
    AgentEnvironmentTaskChanged,
    AgentEnvironmentTaskCompleted,
    AgentEnvironmentTaskDied,
    AgentRunCompleted,
    AgentRunStarted,
    AgentVerifyRungChanged,
    Event,
    Recorded,
)
from glideslope.model.ids import RunId, Scope, SnapshotId
from glideslope.model.proof import RungProof
from glideslope.model.run import Run
from glideslope.model.rung import Rung
from glideslope.model.snapshot import Snapshot
from glideslope.ports.clock import Clock

SCHEMA = 1
KEEP_PROOFS = 50  # of each rung of each project
BUSY_S = 5.0

_LOGGER = logging.getLogger(__name__)

# One entry per schema; an older file is brought up by the entries after its own.
_MIGRATIONS = (
    """
    CREATE TABLE events (
        seq INTEGER PRIMARY KEY, at TEXT NOT NULL, scope BLOB, run TEXT, task TEXT, event BLOB NOT NULL);
    CREATE INDEX events_of_run ON events (run, seq);
    CREATE TABLE runs (
        id TEXT PRIMARY KEY, scope BLOB NOT NULL, opened INTEGER NOT NULL, completed INTEGER NOT NULL,
        run BLOB NOT NULL);
    CREATE INDEX runs_of_scope ON runs (scope, opened);
    CREATE INDEX runs_opened ON runs (opened);
    CREATE TABLE open_tasks (task TEXT PRIMARY KEY, seq INTEGER NOT NULL);
    CREATE TABLE snapshots (id TEXT PRIMARY KEY, manifest BLOB NOT NULL);
    CREATE TABLE proofs (
        number INTEGER PRIMARY KEY AUTOINCREMENT, repository BLOB NOT NULL, rung TEXT NOT NULL,
        project BLOB NOT NULL, snapshot TEXT NOT NULL, proof BLOB NOT NULL);
    CREATE INDEX proofs_of_rung ON proofs (repository, rung, project, number);
    """,
)


class SqliteJournal:
    """Port `Journal` on one file. Any thread may call it; calls wait for one another."""

    def __init__(self, path: str, clock: Clock) -> None:
        """Opens the file, makes it where it is missing, brings an older one up to date.

        Args:
            path: Host path; two more files beside it are SQLite's.
            clock: Dates the events.

        Raises:
            StateUnavailable: The file cannot be used, or a newer version wrote it.
        """
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        if os.path.exists(path + _MARK):
            _set_aside(path)
        try:
            self._database, self._last = _opened(path)
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise self._unavailable(error) from error
            _set_aside(path)
            try:
                self._database, self._last = _opened(path)
            except sqlite3.DatabaseError as again:
                raise self._unavailable(again) from again

    def append(self, event: Event, *, scope: Scope | None) -> Recorded:
        """Stores an event durably and returns it with its sequence number."""
        with self._transaction() as database:
            recorded = Recorded(seq=self._last + 1, at=self._clock.utc_now(), event=event, scope=scope)
            run, task = getattr(event, "run_id", None), getattr(event, "task_id", None)
            database.execute(
                "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)",
                (recorded.seq, recorded.at, _key(scope), run, task, _packed(event)),
            )
            _follow_up(database, recorded)
        # Only now: an append that failed must not leave a hole.
        self._last = recorded.seq
        return recorded

    def read(self, *, after: int, limit: int = 1000) -> Sequence[Recorded]:
        """Events with a sequence number above `after`, oldest first."""
        rows = self._rows(f"SELECT {_EVENT} FROM events WHERE seq > ? ORDER BY seq LIMIT ?", after, limit)
        return [self._recorded(row) for row in rows]

    def last_seq(self) -> int:
        """The newest sequence number, 0 when empty."""
        return self._last

    def run(self, run: RunId) -> Run | None:
        """A run as last recorded; an unambiguous prefix of an id serves too.

        Raises:
            UnknownId: More than one run begins so.
        """
        if not run or not run.isascii():
            return None
        found = self._rows("SELECT run FROM runs WHERE id = ?", run) or self._rows(
            "SELECT run FROM runs WHERE id > ? AND id < ? LIMIT 2", run, run + "\x7f"
        )
        if len(found) > 1:
            raise UnknownId(f"more than one run begins with {run!r}: give more of its id", run=run)
        return self._run(found[0]) if found else None

    def runs(
        self, *, scope: Scope | None = None, before: RunId | None = None, limit: int = 20
    ) -> Sequence[Run]:
        """Runs, newest first.

        Args:
            scope: Of one worktree; None: of all.
            before: Only runs opened before this one.
            limit: So many at most.

        Raises:
            UnknownId: There is no run `before`.
        """
        opened = self._last + 1 if before is None else self._opened_seq(before)
        rows = self._rows(
            "SELECT run FROM runs WHERE opened < ? AND (? IS NULL OR scope = ?) ORDER BY opened DESC LIMIT ?",
            opened,
            _key(scope),
            _key(scope),
            max(limit, 0),
        )
        return [self._run(row) for row in rows]

    def open_runs(self) -> Sequence[Run]:
        """Runs that never completed, oldest first."""
        return [
            self._run(row) for row in self._rows("SELECT run FROM runs WHERE NOT completed ORDER BY opened")
        ]

    def open_tasks(self) -> Sequence[Recorded]:
        """The latest event of each task that has no ending, oldest first."""
        rows = self._rows(
            f"SELECT {_EVENT} FROM events WHERE seq IN (SELECT seq FROM open_tasks) ORDER BY seq"
        )
        return [self._recorded(row) for row in rows]

    def keep_snapshot(self, snapshot: Snapshot) -> None:
        """Stores what a snapshot consists of, so that it can be a base later."""
        if self._rows("SELECT 1 FROM snapshots WHERE id = ?", snapshot.id):
            return  # an id means one content
        manifest = zlib.compress(_packed(snapshot), 1)
        with self._transaction() as database:
            database.execute("INSERT OR IGNORE INTO snapshots VALUES (?, ?)", (snapshot.id, manifest))

    def snapshot(self, snapshot: SnapshotId) -> Snapshot | None:
        """A kept snapshot; one whose record is damaged is as good as none."""
        rows = self._rows("SELECT manifest FROM snapshots WHERE id = ?", snapshot)
        try:
            return codec.decode(Snapshot, msgspec.json.decode(zlib.decompress(rows[0][0]))) if rows else None
        except (zlib.error, msgspec.DecodeError, Undecodable) as error:
            _LOGGER.warning("snapshot %s cannot be read: %s", snapshot, error)
            return None

    def prove(self, proof: RungProof) -> None:
        """Stores the proof of a rung."""
        row = (_key(proof.repository), proof.rung, _key(proof.project), proof.snapshot, _packed(proof))
        with self._transaction() as database:
            database.execute(
                "INSERT INTO proofs (repository, rung, project, snapshot, proof) VALUES (?, ?, ?, ?, ?)", row
            )

    def proofs(self, *, repository: str, rung: Rung, project: str, limit: int = 50) -> Sequence[RungProof]:
        """Proofs of a rung in any worktree of a repository, newest first; unreadable ones left out."""
        rows = self._rows(
            "SELECT proof FROM proofs WHERE repository = ? AND rung = ? AND project = ?"
            " ORDER BY number DESC LIMIT ?",
            _key(repository),
            rung.value,
            _key(project),
            limit,
        )
        found: list[RungProof] = []
        for row in rows:
            try:
                found.append(codec.decode(RungProof, msgspec.json.decode(row[0])))
            except (msgspec.DecodeError, Undecodable) as error:
                _LOGGER.warning("a proof cannot be read: %s", error)
        return found

    def trim(self, *, keep_runs: int) -> int:
        """Forgets all but the newest runs of each scope, and what only they needed.

        Runs that go on stay whatever their age, and so do the newest event and the newest
        `KEEP_PROOFS` proofs of each rung.

        Returns:
            How many events went.
        """
        with self._transaction() as database:
            for statement in _TRIM_RUNS:
                database.execute(statement, {"keep": max(keep_runs, 0), "proofs": KEEP_PROOFS})
            gone = database.execute(_TRIM_EVENTS, {"last": self._last}).rowcount
            self._drop_snapshots(database)
        self._give_space_back()
        return gone

    def surplus(self, *, keep_runs: int) -> int:
        """How many runs `trim` would forget."""
        return int(self._rows(_SURPLUS, max(keep_runs, 0))[0][0])

    def kept_snapshots(self) -> Sequence[SnapshotId]:
        """Every snapshot whose content is recorded."""
        return [SnapshotId(row[0]) for row in self._rows("SELECT id FROM snapshots ORDER BY id")]

    def close(self) -> None:
        """Releases the file; later calls are illegal."""
        with self._lock:
            self._database.close()

    def _give_space_back(self) -> None:
        with self._lock:
            try:
                # A script, because `execute` stops after the first page.
                self._database.executescript("PRAGMA incremental_vacuum")
            except sqlite3.DatabaseError as error:
                raise self._unavailable(error) from error

    def _drop_snapshots(self, database: sqlite3.Connection) -> None:
        needed = {row[0] for row in database.execute("SELECT snapshot FROM proofs")}
        for row in database.execute("SELECT run FROM runs"):
            run = self._run(row)
            needed |= {str(run.snapshot), str(run.base_snapshot)}
        held = {row[0] for row in database.execute("SELECT id FROM snapshots")}
        database.executemany("DELETE FROM snapshots WHERE id = ?", [(each,) for each in held - needed])

    def _opened_seq(self, run: RunId) -> int:
        rows = self._rows("SELECT opened FROM runs WHERE id = ?", run) if run.isascii() else []
        if not rows:
            raise UnknownId(f"no run {run!r}: `glideslope runs` lists them", next="glideslope runs", run=run)
        return int(rows[0][0])

    def _run(self, row: tuple[Any, ...]) -> Run:
        with self._readable():
            return codec.decode(Run, msgspec.json.decode(row[0]))

    def _recorded(self, row: tuple[Any, ...]) -> Recorded:
        seq, at, scope, event = row
        with self._readable():
            return Recorded(
                seq=seq,
                at=at,
                scope=None if scope is None else Scope(os.fsdecode(scope)),
                event=codec.decode_event(msgspec.json.decode(event)),
            )

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Tells what is damaged from what a newer version wrote, which is never moved aside."""
        try:
            yield
        except msgspec.DecodeError as error:
            raise self._damaged(error) from error
        except Undecodable as error:
            raise StateUnavailable(
                f"the journal {self._path} holds what this version cannot read ({error.message}); "
                "where no newer version was used, move the file aside",
                path=self._path,
            ) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Everything or nothing, and nobody else meanwhile."""
        with self._lock:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                try:
                    yield self._database
                    self._database.execute("COMMIT")
                finally:
                    if self._database.in_transaction:
                        self._database.execute("ROLLBACK")
            except sqlite3.DatabaseError as error:
                raise self._unavailable(error) from error

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._database.execute(statement, values).fetchall()
            except sqlite3.DatabaseError as error:
                raise self._unavailable(error) from error

    def _unavailable(self, error: sqlite3.DatabaseError) -> StateUnavailable:
        if _is_damage(error):
            return self._damaged(error)
        return unavailable(OSError(0, str(error)), self._path)

    def _damaged(self, error: Exception) -> StateUnavailable:
        """Leaves a mark for the next opening, which moves the file aside."""
        try:
            with open(self._path + _MARK, "w", encoding="utf-8") as mark:
                mark.write(str(error))
        except OSError as reason:
            _LOGGER.warning("the damage cannot be marked: %s", reason)
        return StateUnavailable(
            f"the journal {self._path} is damaged ({error}): restart the daemon, which moves the file aside "
            "and begins a new one",
            next="glideslope daemon stop",
            path=self._path,
        )


_EVENT = "seq, at, scope, event"
_MARK = ".damaged"

_TRIM_RUNS = (
    """
    DELETE FROM runs WHERE completed AND id IN (
        SELECT id FROM (
            SELECT id, row_number() OVER (PARTITION BY scope ORDER BY opened DESC) AS age FROM runs)
        WHERE age > :keep)
    """,
    """
    DELETE FROM proofs WHERE number IN (
        SELECT number FROM (
            SELECT number, row_number() OVER (
                PARTITION BY repository, rung, project ORDER BY number DESC) AS age FROM proofs)
        WHERE age > :proofs)
    """,
)
# Events of no run go once they are older than every run that is kept.
_SURPLUS = """
    SELECT count(*) FROM (
        SELECT completed, row_number() OVER (PARTITION BY scope ORDER BY opened DESC) AS age FROM runs)
    WHERE completed AND age > ?
"""

_TRIM_EVENTS = """
    DELETE FROM events WHERE seq < :last
        AND seq NOT IN (SELECT seq FROM open_tasks)
        AND CASE WHEN run IS NULL
            THEN seq < (SELECT coalesce(min(opened), :last) FROM runs)
            ELSE run NOT IN (SELECT id FROM runs) END
"""


def _opened(path: str) -> tuple[sqlite3.Connection, int]:
    """A connection on a file of this schema, and its newest number; transactions are ours to open."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    except OSError as error:
        raise unavailable(error, path) from error
    database = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA auto_vacuum = INCREMENTAL")  # of a new file only
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        _migrate(database, path)
        (last,) = database.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
    except BaseException:
        database.close()
        raise
    return database, int(last)


def _migrate(database: sqlite3.Connection, path: str) -> None:
    (found,) = database.execute("PRAGMA user_version").fetchone()
    if found > SCHEMA:
        raise StateUnavailable(
            f"{path} was written by a newer version (schema {found}, this one reads {SCHEMA}): update "
            "glideslope, or set GLIDESLOPE_STATE_DIR to another folder",
            path=path,
        )
    for version, script in enumerate(_MIGRATIONS[found:], start=found + 1):
        database.executescript(f"BEGIN IMMEDIATE; {script}; PRAGMA user_version = {version}; COMMIT;")


def _follow_up(database: sqlite3.Connection, recorded: Recorded) -> None:
    """What an event changes besides being there: its run as last recorded, the tasks that are open."""
    match recorded.event:
        case AgentRunStarted(run=run) | AgentRunCompleted(run=run):
            database.execute(
                "INSERT INTO runs VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE"
                " SET completed = excluded.completed, run = excluded.run",
                (
                    run.id,
                    _key(run.scope),
                    recorded.seq,
                    isinstance(recorded.event, AgentRunCompleted),
                    _packed(run),
                ),
            )
        case AgentVerifyRungChanged(run_id=run_id, result=result):
            row = database.execute(
                "SELECT run FROM runs WHERE id = ? AND NOT completed", (run_id,)
            ).fetchone()
            if row is not None:
                known = codec.decode(Run, msgspec.json.decode(row[0]))
                told = replace(known, rungs=with_rung(known.rungs, result))
                database.execute("UPDATE runs SET run = ? WHERE id = ?", (_packed(told), run_id))
        case AgentEnvironmentTaskChanged(task_id=task):
            database.execute("INSERT OR REPLACE INTO open_tasks VALUES (?, ?)", (task, recorded.seq))
        case AgentEnvironmentTaskCompleted(task_id=task) | AgentEnvironmentTaskDied(task_id=task):
            database.execute("DELETE FROM open_tasks WHERE task = ?", (task,))


def _packed(value: object) -> bytes:
    return msgspec.json.encode(codec.encode(value))


def _key(text: str | None) -> bytes | None:
    """Text to look up by; paths need not be Unicode."""
    return None if text is None else os.fsencode(text)


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _set_aside(path: str) -> None:
    """Renames a damaged file and its companions, keeping every earlier one."""
    number = next(n for n in range(1, 10_000) if not os.path.exists(f"{path}.damaged-{n}"))
    try:
        for companion in ("-wal", "-shm", ""):
            if os.path.exists(path + companion):
                os.rename(path + companion, f"{path}.damaged-{number}{companion}")
        if os.path.exists(path + _MARK):
            os.unlink(path + _MARK)
    except OSError as error:
        raise unavailable(error, path) from error
    _LOGGER.warning("the journal was damaged: it is now %s.damaged-%d, and a new one begins", path, number)
