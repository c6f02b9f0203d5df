"""Keeping the state folder in bounds, and reading stored logs."""

from __future__ import annotations

from glideslope.engine.actions import LogPage, Prune, Pruned, PrunedItem, ReadLog
from glideslope.ports.logs import Logs
from glideslope.ports.storage import Storage


def read_log(logs: Logs, action: ReadLog) -> LogPage:
    """A page of a log: by place, the last lines, or the lines that match.

    Raises:
        UnknownId: No such log.
        InvalidInput: No regular expression.
    """
    if action.grep is not None:
        start, content, total = logs.grep(action.ref, action.grep, offset=action.offset)
    elif action.tail_lines is not None:
        start, content, total = logs.tail(action.ref, lines=action.tail_lines)
    else:
        start, content, total = logs.read(action.ref, offset=action.offset, limit=action.limit)
    end = total if action.grep is not None else start + len(content)
    return LogPage(ref=action.ref, start=start, end=end, total_bytes=total, content=content)


def prune(storage: Storage, action: Prune, *, keep_runs: int) -> Pruned:
    """Lists what may go from the state folder; removes it where that was asked for."""
    kept = action.keep_runs if action.keep_runs is not None else keep_runs
    stored = storage.superfluous(keep_runs=kept)
    before_bytes = storage.size_bytes()
    freed_bytes = sum(one.size_bytes for one in stored)
    if action.apply:
        storage.remove(stored, keep_runs=kept)
        freed_bytes = max(0, before_bytes - storage.size_bytes())
    return Pruned(
        items=tuple(PrunedItem(kind=one.kind, name=one.name, size_bytes=one.size_bytes) for one in stored),
        freed_bytes=freed_bytes,
        state_bytes=storage.size_bytes(),
        applied=action.apply,
    )
