"""Settings, frozen and fully defaulted; names as users write them in TOML."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from glideslope.model.rung import VerifyPolicy


class SandboxProfile(StrEnum):
    """Named rule sets for side effects."""

    OPERATOR = "operator"
    AGENT_EPHEMERAL = "agent_ephemeral"
    AGENT_WORKTREE = "agent_worktree"
    READ_ONLY = "read_only"


class Network(StrEnum):
    """What tasks may reach."""

    LOOPBACK = "loopback"
    HOST = "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderSettings:
    """`[agent.environment.ladder]`."""

    diagnose_files_enabled: bool = True
    test_full_require_explicit: bool = True
    main_branches: tuple[str, ...] = ("main", "master")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeAccountingSettings:
    """`[agent.environment.time_accounting]`."""

    show_in_chat: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSettings:
    """`[agent.environment]`."""

    default_verify_policy: VerifyPolicy = VerifyPolicy.STANDARD
    default_sandbox_profile: SandboxProfile = SandboxProfile.AGENT_EPHEMERAL
    runner_max_concurrency: int = 2
    coalesce_window_ms: int = 1500
    network: Network = Network.LOOPBACK
    allow_index: bool = True
    carry: tuple[str, ...] = (".venv", "venv", "node_modules")
    carry_files: tuple[str, ...] = (
        "**/*.so",
        "**/_version.py",
        "**/version.py",
        "**/*_pb2.py",
        "**/*_pb2_grpc.py",
        ".env",
    )
    python: str = ""
    isolation: str = "auto"  # auto: the best tier this machine allows; or snapshot, copy, live
    task_timeout_s: float = 1800.0  # wall limit of one task
    task_idle_s: float = 300.0  # a task that neither prints nor reports for so long is ended
    state_max_bytes: int = 10_000_000_000
    keep_runs: int = 200
    daemon_idle_s: float = 1800.0
    ladder: LadderSettings = field(default_factory=LadderSettings)
    time_accounting: TimeAccountingSettings = field(default_factory=TimeAccountingSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class TestProfile:
    """`[test_profiles.NAME]`: a registered command; `{selection}` stands for chosen node ids."""

    __test__ = False

    name: str
    command: tuple[str, ...]
    timeout_s: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a user may set."""

    environment: EnvironmentSettings = field(default_factory=EnvironmentSettings)
    test_profiles: tuple[TestProfile, ...] = ()
