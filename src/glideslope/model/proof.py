"""Proof that a rung passed: what lets a base advance, and a pass be shown again."""

from __future__ import annotations

from dataclasses import dataclass

from glideslope.model.ids import EnvironmentKey, RunId, Scope, SnapshotId
from glideslope.model.result import ProjectRung
from glideslope.model.rung import Rung

FULL_COVER = "full"  # `covered` of a run of everything


@dataclass(frozen=True, slots=True, kw_only=True)
class RungProof:
    """A rung that was really executed and ended in a pass, and all that the pass depends on."""

    run: RunId
    scope: Scope  # worktree the run was in
    repository: str  # shared by all worktrees of one repository
    snapshot: SnapshotId
    rung: Rung
    project: str  # name of the project within the workspace
    environment_key: EnvironmentKey
    settings_digest: str
    selector: str  # version of the selector
    isolation: str
    git_head: str | None
    covered: str  # digest of what was selected; "full" covers every selection
    known_failures: tuple[str, ...] = ()  # node ids that failed on an older tree too
    at: str = ""
    end: ProjectRung | None = None  # how it ended, to be shown again: findings, counts, known failures
