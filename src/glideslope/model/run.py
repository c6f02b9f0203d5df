"""A run: one attempt to prove one snapshot, as every surface shows it."""

from __future__ import annotations

from dataclasses import dataclass

from glideslope.model.ids import CommitId, EnvironmentKey, EpochId, RunId, Scope, SnapshotId, TreeId
from glideslope.model.result import CancelReason, RungResult, StaleReason, Verdict
from glideslope.model.rung import Rung, VerifyPolicy
from glideslope.model.snapshot import BaseReason
from glideslope.model.timeslice import TimeReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Staleness:
    """Why, and because of which paths (sorted), a run is stale."""

    reason: StaleReason
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Everything there is to say about one run; `verdict` is None while it goes on."""

    id: RunId
    action: str  # verify, diagnose or test
    epoch: EpochId | None
    scope: Scope
    policy: VerifyPolicy
    sandbox_profile: str
    isolation: str | None  # snapshot, copy or live
    snapshot: SnapshotId | None  # None: the run ended before one was taken
    tree_id: TreeId | None
    git_head: CommitId | None
    inputs_digest: str | None
    environment_key: EnvironmentKey | None
    dirty_paths: tuple[str, ...]
    base_snapshot: SnapshotId | None
    base_reason: BaseReason
    changed_paths: tuple[str, ...]
    verdict: Verdict | None
    stale: Staleness | None
    cancelled: CancelReason | None
    required_rung: Rung | None
    max_rung_reached: Rung | None
    rungs: tuple[RungResult, ...]
    time: TimeReport | None
    started_at: str  # RFC 3339, UTC
    ended_at: str | None
    note: str = ""  # one more sentence for the status line
    next: str | None = None
    parent_run: RunId | None = None
    python: str | None = None  # as the caller named it; decides which environment the run is about
    virtual_env: str | None = None  # VIRTUAL_ENV of the caller
