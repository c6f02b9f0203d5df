"""From what an exec host tells to an `ExecResult`."""

from __future__ import annotations

from typing import Any

from glideslope.adapters.environments.launch import Ending
from glideslope.model.sandbox import (
    ExecOutcome,
    ExecResult,
    ExecTimes,
    Isolation,
    NetworkAccess,
    SandboxReport,
    Survivors,
    TimeLimit,
    TreeChanges,
)
from glideslope.model.settings import SandboxProfile


def read_ending(ending: Ending, profile: SandboxProfile, isolation: Isolation) -> ExecResult:
    """Makes the result of an exec that has ended.

    Args:
        ending: What the launcher's client collected.
        profile: The profile the command ran under.
        isolation: The tier it ran in.

    Returns:
        The result; `died` where the exec host was killed before it could tell the end.
    """
    facts = ending.facts or {
        "outcome": ExecOutcome.DIED,
        "reason": "the process that supervised the command was killed",
    }
    limit = facts.get("limit")
    changes = facts.get("changes")
    return ExecResult(
        outcome=ExecOutcome(facts["outcome"]),
        code=facts.get("code"),
        signal=facts.get("signal"),
        limit=TimeLimit(limit) if limit else None,
        reason=facts.get("reason") or "",
        stdout=ending.stdout.captured(),
        stderr=ending.stderr.captured(),
        survivors=_survivors(ending, facts),
        changes=_changes(changes) if changes is not None else None,
        times=_times(ending, facts.get("times", {})),
        sandbox=_report(facts, profile, isolation),
    )


def _survivors(ending: Ending, facts: dict[str, Any]) -> Survivors:
    unknown = {"seen": None, "killed": None, "left": 0 if ending.proven_gone else None}
    return Survivors(**facts.get("survivors", unknown))


def _changes(facts: dict[str, Any]) -> TreeChanges:
    return TreeChanges(
        created=tuple(facts["created"]),
        modified=tuple(facts["modified"]),
        deleted=tuple(facts["deleted"]),
        count=facts["count"],
    )


def _times(ending: Ending, facts: dict[str, float]) -> ExecTimes:
    started = facts.get("started", ending.finished_at)
    ended = facts.get("ended", ending.finished_at)
    return ExecTimes(
        queued_s=ending.sent_at - ending.queued_at,
        spawn_s=started - ending.sent_at,
        run_s=max(0.0, ended - started),
        drain_s=max(0.0, ending.finished_at - ended),
    )


def _report(facts: dict[str, Any], profile: SandboxProfile, isolation: Isolation) -> SandboxReport:
    enforced = dict(facts.get("enforced", {}))
    return SandboxReport(
        profile=profile,
        isolation=isolation,
        network=NetworkAccess(enforced.pop("network", NetworkAccess.HOST)),
        limits=tuple(enforced.pop("limits", ())),
        notes=tuple(facts.get("notes", ())),
        **enforced,
    )
