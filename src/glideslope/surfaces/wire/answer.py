"""The answers of the other actions as JSON."""

from __future__ import annotations

import base64
import codecs
from collections.abc import Mapping
from typing import Any

import msgspec

from glideslope.engine.actions import Cancelled, Diagnosis, LogPage, Pruned, RunList, Status
from glideslope.surfaces.wire.run import WireRun, wire_run
from glideslope.surfaces.wire.text import path_text, plain_text


class WireQueued(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the queue."""

    task_id: str
    kind: str
    lane: str
    state: str
    run_id: str | None


class WireDaemon(msgspec.Struct, frozen=True, kw_only=True):
    """The process that answered."""

    pid: int
    version: str
    uptime_s: float


class WireStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Data of `status`."""

    active: list[WireRun]
    queue: list[WireQueued]
    cap: int
    workspace: str | None
    sandbox_profile: str
    verify_snapshot_id: str | None
    current: bool | None  # of the last run
    last_run_id: str | None
    last_verdict: str | None
    daemon: WireDaemon


class WireRuns(msgspec.Struct, frozen=True, kw_only=True):
    """Data of `runs`: newest first; `next` is the cursor of the page after this."""

    runs: list[WireRun]
    next: str | None


class WireCancelled(msgspec.Struct, frozen=True, kw_only=True):
    """Data of `cancel`: `survivors` counts processes that are still there."""

    cancelled: list[str]
    survivors: int


class WireLog(msgspec.Struct, frozen=True, kw_only=True):
    """Data of `log`: bytes `from` up to, not including, `to`; base64 where they are not UTF-8."""

    ref: str
    start: int = msgspec.field(name="from")
    end: int = msgspec.field(name="to")
    total_bytes: int
    text: str | None
    base64: str | None


class WireCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One thing `doctor` looked at: ok, degraded or missing."""

    id: str
    state: str
    effect: str
    next: str | None


class WireDoctor(msgspec.Struct, frozen=True, kw_only=True):
    """Data of `doctor`."""

    checks: list[WireCheck]


class WirePrunedItem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that goes, or would go."""

    kind: str
    name: str
    size_bytes: int


class WirePruned(msgspec.Struct, frozen=True, kw_only=True):
    """Data of `prune`."""

    items: list[WirePrunedItem]
    freed_bytes: int
    state_bytes: int
    applied: bool


class WireConfigFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that settings can come from."""

    source: str
    path: str
    exists: bool


class WireConfigProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One mistake in the settings."""

    where: str
    key: str
    message: str


class WireConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Data of `config show` and `config check`."""

    settings: dict[str, Any]  # nested tables, as in TOML
    sources: dict[str, str]
    files: list[WireConfigFile]
    digest: str
    problems: list[WireConfigProblem]
    warnings: list[str]


class WireDaemonStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Data of `daemon start`, `daemon stop` and `daemon status`."""

    running: bool
    pid: int | None
    version: str | None
    uptime_s: float | None
    busy: bool | None
    socket: str
    state_dir: str


def wire_status(status: Status) -> WireStatus:
    """What the engine is doing."""
    return WireStatus(
        active=[wire_run(view) for view in status.active],
        queue=[
            WireQueued(
                task_id=task.task_id, kind=task.kind, lane=task.lane, state=task.state, run_id=task.run_id
            )
            for task in status.queue
        ],
        cap=status.cap,
        workspace=None if status.workspace is None else path_text(status.workspace),
        sandbox_profile=status.sandbox_profile,
        verify_snapshot_id=status.verify_snapshot_id,
        current=status.current,
        last_run_id=status.last_run_id,
        last_verdict=status.last_verdict,
        daemon=WireDaemon(pid=status.pid, version=status.version, uptime_s=round(status.uptime_s, 3)),
    )


def wire_runs(page: RunList) -> WireRuns:
    """A page of runs."""
    return WireRuns(runs=[wire_run(view, diagnostics=False) for view in page.runs], next=page.next)


def wire_cancelled(answer: Cancelled) -> WireCancelled:
    """Which runs were ended."""
    return WireCancelled(cancelled=sorted(answer.cancelled), survivors=answer.survivors)


def wire_log(page: LogPage) -> WireLog:
    """A page of a log. A character that the end of the page cuts is left for the next page."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(page.content)
    except UnicodeDecodeError:
        return _log(page, page.end, None, base64.b64encode(page.content).decode("ascii"))
    cut, _ = decoder.getstate()
    if cut and not text:
        return _log(page, page.end, None, base64.b64encode(page.content).decode("ascii"))
    return _log(page, page.end - len(cut), text, None)


def _log(page: LogPage, end: int, text: str | None, encoded: str | None) -> WireLog:
    return WireLog(
        ref=page.ref, start=page.start, end=end, total_bytes=page.total_bytes, text=text, base64=encoded
    )


def wire_doctor(answer: Diagnosis) -> WireDoctor:
    """Everything that was looked at, in the engine's order."""
    return WireDoctor(
        checks=[
            WireCheck(
                id=check.id,
                state=check.state,
                effect=plain_text(check.effect),
                next=plain_text(check.next) or None,
            )
            for check in answer.checks
        ]
    )


def wire_pruned(answer: Pruned) -> WirePruned:
    """What went, or would go."""
    return WirePruned(
        items=[
            WirePrunedItem(kind=item.kind, name=path_text(item.name), size_bytes=item.size_bytes)
            for item in answer.items
        ],
        freed_bytes=answer.freed_bytes,
        state_bytes=answer.state_bytes,
        applied=answer.applied,
    )


def wire_settings(settings: object) -> dict[str, object]:
    """Settings as nested tables, as TOML has them."""
    plain = msgspec.json.decode(msgspec.json.encode(settings))
    assert isinstance(plain, Mapping), "settings are tables"
    profiles = {
        profile["name"]: {key: value for key, value in profile.items() if key != "name"}
        for profile in plain["test_profiles"]
    }
    return {"agent": {"environment": plain["environment"]}, "test_profiles": profiles}
