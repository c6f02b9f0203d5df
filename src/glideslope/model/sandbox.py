"""One command in an environment: what is asked, how it ended, and what was really enforced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from glideslope.errors import InvalidInput
from glideslope.model.settings import SandboxProfile


class Isolation(StrEnum):
    """How far a task is kept from the live tree."""

    SNAPSHOT = "snapshot"  # an overlay over the materialised snapshot, at the project's own path
    COPY = "copy"  # a plain copy of it, at the project's own path
    LIVE = "live"  # the working tree itself


class NetworkAccess(StrEnum):
    """What a task may reach."""

    NONE = "none"
    LOOPBACK = "loopback"
    HOST = "host"


class ExecOutcome(StrEnum):
    """How a command ended. No environment of this version reports the last two: they need a
    terminal, and a filter of system calls."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    OOM = "oom"
    INFRASTRUCTURE = "infrastructure"  # it never ran, or not in the environment it should have
    DIED = "died"  # what supervises it was killed
    NEEDS_INPUT = "needs_input"
    BLOCKED_BY_POLICY = "blocked_by_policy"


class TimeLimit(StrEnum):
    """Which limit ended a command that timed out."""

    WALL = "wall"
    IDLE = "idle"  # neither output nor a report for so long


@dataclass(frozen=True, slots=True, kw_only=True)
class Substrate:
    """The private folders of a task, as it sees them. Constant inside a sandbox, so that they
    never vary in a record."""

    temporary: str = "/tmp"
    home: str = "/tmp/home"
    data: str = "/tmp/data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A file or folder of the machine shown to a task. Absolute paths."""

    source: str
    target: str
    read_only: bool = True
    own: bool = False  # ours to show, although it lies where no task may look


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPolicy:
    """How much of each stream is kept, in bytes."""

    head_bytes: int = 64 * 1024
    tail_bytes: int = 64 * 1024
    log_bytes: int = 32 * 1024 * 1024  # cap of the stored log of one stream; beyond it only counted

    def __post_init__(self) -> None:
        if min(self.head_bytes, self.tail_bytes, self.log_bytes) < 0:
            raise InvalidInput("an output bound is negative: give 0 or more", field="output")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """Kernel limits of the task; None leaves the inherited one. Core dumps are always off."""

    address_space_bytes: int | None = None
    processes: int | None = None  # of this user in the sandbox
    file_size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecSpec:
    """One command to run. An argument list, never a shell string."""

    argv: tuple[str, ...]
    cwd: str = ""  # relative to the project root, "" for the root
    env: Mapping[str, str] = field(default_factory=dict)  # complete: nothing is added
    stdin: bytes = b""  # empty: the null device
    wall_s: float | None = None
    idle_s: float | None = None
    grace_s: float = 0.3  # between the polite signal and the kill
    drain_s: float = 0.15  # what processes left behind get to end by themselves
    network: NetworkAccess = NetworkAccess.LOOPBACK
    output: OutputPolicy = OutputPolicy()
    log_path: str | None = None  # file that both streams are appended to, as they come
    report: bool = False  # a third pipe; its number replaces the argument "{report_fd}"
    binds: tuple[Bind, ...] = ()
    limits: ResourceLimits = ResourceLimits()

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise InvalidInput("a command needs a program: give at least one argument", field="argv")
        if self.cwd.startswith("/") or ".." in self.cwd.split("/"):
            raise InvalidInput(
                f"{self.cwd!r} is not below the project root: give a relative path", field="cwd"
            )
        if any("\0" in part for part in (*self.argv, self.cwd, *self.env, *self.env.values())):
            raise InvalidInput("a NUL cannot be passed to a program: remove it", field="argv")


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """One stream of a command, bounded. Bytes, exactly as written."""

    head: bytes = b""
    tail: bytes = b""  # empty where the head holds everything
    total_bytes: int = 0
    logged_bytes: int = 0
    log_path: str | None = None

    @property
    def omitted_bytes(self) -> int:
        """How many bytes between head and tail are not here."""
        return self.total_bytes - len(self.head) - len(self.tail)

    @property
    def complete(self) -> bytes:
        """Head and tail joined: all there was, if nothing was omitted."""
        return self.head + self.tail


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivors:
    """Processes still there when the command's own had ended. None: could not be counted."""

    seen: int | None = 0
    killed: int | None = 0
    left: int | None = 0  # 0 is a proof in tiers snapshot and copy: their kernel namespace is gone


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeChanges:
    """What a command changed below the project root. Relative paths, sorted."""

    created: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    count: int = 0  # of all; more than are named if it was a great many

    @property
    def paths(self) -> tuple[str, ...]:
        """All named paths, sorted."""
        return tuple(sorted((*self.created, *self.modified, *self.deleted)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecTimes:
    """Where the seconds went."""

    queued_s: float = 0.0  # waiting for the launcher
    spawn_s: float = 0.0  # namespaces and view, until the program runs
    run_s: float = 0.0
    drain_s: float = 0.0  # from the end of the program until all is gone and read


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxReport:
    """What was really enforced, as seen while the command ran; never what was merely asked."""

    profile: SandboxProfile
    isolation: Isolation
    user_namespace: bool = False
    mount_namespace: bool = False
    pid_namespace: bool = False
    network: NetworkAccess = NetworkAccess.HOST
    read_only_outside: bool = False
    private_proc: bool = False
    private_devices: bool = False
    landlock: bool = False
    limits: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """How a command ended; only made once none of its processes is left."""

    outcome: ExecOutcome
    code: int | None = None
    signal: int | None = None
    limit: TimeLimit | None = None
    reason: str = ""
    stdout: Captured = Captured()
    stderr: Captured = Captured()
    survivors: Survivors = Survivors()
    changes: TreeChanges | None = None  # None: this tier cannot see them
    times: ExecTimes = ExecTimes()
    sandbox: SandboxReport

    @property
    def isolation(self) -> Isolation:
        """The tier it really ran in."""
        return self.sandbox.isolation


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxProbe:
    """What this machine allows, each primitive tried."""

    isolation: Isolation  # the best tier
    missing: Mapping[str, str]  # primitive -> why; empty where everything works
    primitives: tuple[str, ...] = ()  # all that were tried, in order
