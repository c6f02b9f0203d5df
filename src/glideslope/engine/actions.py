"""The catalogue of actions: what anyone, person or agent, may ask of the engine.

Every surface is generated from, or checked against, this table: a name, the shape of the
input, the shape of the answer. Inputs are validated by their types; hosts of surfaces
translate words into them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from glideslope.model.ids import LogRef, RunId, TaskId
from glideslope.model.run import Run
from glideslope.model.rung import Rung, VerifyPolicy
from glideslope.model.settings import SandboxProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """What the caller's own process knows and the engine's does not."""

    folder: str  # real path of the caller's current folder, or of --repo
    explicit_folder: bool = False  # --repo was given
    virtual_env: str | None = None  # VIRTUAL_ENV of the caller
    variables: tuple[
        tuple[str, str], ...
    ] = ()  # caller's GLIDESLOPE__ settings, and under the operator profile its environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """Climb the ladder on the current snapshot. Answer: Started."""

    caller: Caller
    policy: VerifyPolicy | None = None  # None: the setting
    rung: Rung | None = None  # cap
    base: str | None = None  # a revision
    paths: tuple[str, ...] = ()
    project: str | None = None
    sandbox: SandboxProfile | None = None
    python: str | None = None
    timeout_s: float | None = None  # on the whole run
    no_cache: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnose:
    """Rung one on the given or the changed files; opens no epoch. Answer: Started."""

    caller: Caller
    paths: tuple[str, ...] = ()
    base: str | None = None
    sandbox: SandboxProfile | None = None
    python: str | None = None
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """Chosen tests, or a registered profile, in a fresh substrate; opens no epoch. Answer: Started."""

    __test__ = False

    caller: Caller
    nodeids: tuple[str, ...] = ()
    profile: str | None = None
    rerun_failed: bool = False
    base: str | None = None
    project: str | None = None
    sandbox: SandboxProfile | None = None
    python: str | None = None
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A run was opened, or joined."""

    run_id: RunId
    joined: bool
    seq: int  # events of the run have sequence numbers above this


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitRun:
    """Wait until a run has ended, or for so long. Answer: RunView."""

    run_id: RunId
    timeout_s: float = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRun:
    """A run by id or by an unambiguous prefix. Answer: RunView."""

    run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class Last:
    """The newest run of the caller's workspace. Answer: RunView."""

    caller: Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRuns:
    """Runs of the caller's workspace, newest first. Answer: RunList."""

    caller: Caller
    before: RunId | None = None
    limit: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run, and whether it still speaks of the workspace."""

    run: Run
    current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunList:
    """A page of runs."""

    runs: tuple[RunView, ...]
    next: RunId | None  # pass as `before` for the next page


@dataclass(frozen=True, slots=True, kw_only=True)
class GetStatus:
    """Queue, active runs, current snapshot. Answer: Status."""

    caller: Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedTask:
    """One line of the queue."""

    task_id: TaskId
    kind: str
    lane: str
    state: str
    run_id: RunId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What the engine is doing, and where the workspace stands."""

    active: tuple[RunView, ...]
    queue: tuple[QueuedTask, ...]
    cap: int
    workspace: str | None
    sandbox_profile: str
    verify_snapshot_id: str | None
    current: bool | None  # of the last run
    last_run_id: RunId | None
    last_verdict: str | None
    pid: int
    version: str
    uptime_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Cancel one run, or every active run of the caller's workspace. Answer: Cancelled."""

    caller: Caller
    run_id: RunId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """Which runs were ended; `survivors` counts processes that are still there."""

    cancelled: tuple[RunId, ...]
    survivors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLog:
    """A page of a stored log. Answer: LogPage."""

    ref: LogRef
    offset: int = 0  # bytes from the start; negative: from the end
    limit: int = 65536
    tail_lines: int | None = None
    grep: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """Bytes of a log, from `start` to `end`."""

    ref: LogRef
    start: int
    end: int
    total_bytes: int
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Doctor:
    """Look at everything a verify needs. Answer: Diagnosis."""

    caller: Caller
    python: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """One thing looked at. `state` is ok, degraded or missing."""

    id: str
    state: str
    effect: str
    next: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """All checks, in a fixed order."""

    checks: tuple[HealthCheck, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prune:
    """List what may go from the state folder; remove it with `apply`. Answer: Pruned."""

    apply: bool = False
    keep_runs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedItem:
    """One thing that goes or would go."""

    kind: str  # tree, blobs, log, runs, substrate
    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What went, or would go; sizes in bytes."""

    items: tuple[PrunedItem, ...]
    freed_bytes: int
    state_bytes: int
    applied: bool


Action = (
    Verify
    | Diagnose
    | Test
    | WaitRun
    | GetRun
    | Last
    | ListRuns
    | GetStatus
    | Cancel
    | ReadLog
    | Doctor
    | Prune
)
Answer = Started | RunView | RunList | Status | Cancelled | LogPage | Diagnosis | Pruned


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry:
    """One action as surfaces see it."""

    name: str
    input: type[Action]
    answer: type[Answer]
    tier: str = "tool.native"
    starts_run: bool = field(default=False)


CATALOGUE: tuple[CatalogueEntry, ...] = (
    CatalogueEntry(name="verify", input=Verify, answer=Started, starts_run=True),
    CatalogueEntry(name="diagnose", input=Diagnose, answer=Started, starts_run=True),
    CatalogueEntry(name="test", input=Test, answer=Started, starts_run=True),
    CatalogueEntry(name="wait", input=WaitRun, answer=RunView),
    CatalogueEntry(name="run", input=GetRun, answer=RunView),
    CatalogueEntry(name="last", input=Last, answer=RunView),
    CatalogueEntry(name="runs", input=ListRuns, answer=RunList),
    CatalogueEntry(name="status", input=GetStatus, answer=Status),
    CatalogueEntry(name="cancel", input=Cancel, answer=Cancelled),
    CatalogueEntry(name="log", input=ReadLog, answer=LogPage),
    CatalogueEntry(name="doctor", input=Doctor, answer=Diagnosis),
    CatalogueEntry(name="prune", input=Prune, answer=Pruned),
)
