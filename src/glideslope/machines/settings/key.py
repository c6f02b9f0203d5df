"""Every key a user may set: its kind, its limits, and what it does.

The table is the schema. A key that is not in it is unknown, and every key in it is a field of
`model/settings`, where the defaults live.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from glideslope.model.rung import VerifyPolicy
from glideslope.model.settings import Network, SandboxProfile

Value = bool | int | float | str | tuple[str, ...]

PROFILES = "test_profiles"  # a table of tables, named by the user
ANY = "*"  # stands for such a name


class Kind(StrEnum):
    """What a value has to be; the text is shown to the user."""

    FLAG = "true or false"
    WHOLE = "a whole number"
    NUMBER = "a number"
    TEXT = "a text"
    CHOICE = "one word"
    TEXTS = "a list of texts"
    PATHS = "a list of paths or patterns below the workspace root"
    COMMAND = "a list of texts, the program first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key."""

    name: str  # dotted, as in TOML; `*` for a name of the user's choice
    kind: Kind
    about: str
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    # A safety key: values by how much they forbid; layers after the user's own may only go up.
    strictness: Mapping[Value, int] | None = None
    # Whether what a pass means can depend on it, so that a proof under another value does not count.
    proof: bool = False

    @property
    def expects(self) -> str:
        """What a value has to be, for people."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.least is None:
            return self.kind.value
        limit = f"{self.least:g} or more" if self.most is None else f"from {self.least:g} to {self.most:g}"
        return f"{self.kind.value}, {limit}"


_ENVIRONMENT = "agent.environment."
_DAY_S = 86_400.0

KEYS: tuple[Key, ...] = (
    Key(
        name=_ENVIRONMENT + "default_verify_policy",
        kind=Kind.CHOICE,
        choices=tuple(VerifyPolicy),
        about="The policy of a verify that names none.",
    ),
    Key(
        name=_ENVIRONMENT + "default_sandbox_profile",
        kind=Kind.CHOICE,
        choices=tuple(SandboxProfile),
        strictness={
            SandboxProfile.OPERATOR: 0,
            SandboxProfile.AGENT_EPHEMERAL: 1,
            SandboxProfile.AGENT_WORKTREE: 1,
            SandboxProfile.READ_ONLY: 2,
        },
        proof=True,
        about="The sandbox profile of a run that names none.",
    ),
    Key(
        name=_ENVIRONMENT + "runner_max_concurrency",
        kind=Kind.WHOLE,
        least=1,
        most=256,
        about="How many tasks run at once, over all workspaces of the user.",
    ),
    Key(
        name=_ENVIRONMENT + "coalesce_window_ms",
        kind=Kind.WHOLE,
        least=0,
        most=600_000,
        about="How long the workspace has to be quiet before `verify --watch` verifies again.",
    ),
    Key(
        name=_ENVIRONMENT + "network",
        kind=Kind.CHOICE,
        choices=tuple(Network),
        strictness={Network.HOST: 0, Network.LOOPBACK: 1},
        proof=True,
        about="What tasks may reach: their own loopback, or what this machine reaches.",
    ),
    Key(
        name=_ENVIRONMENT + "allow_index",
        kind=Kind.FLAG,
        strictness={True: 0, False: 1},
        proof=True,
        about="Whether the one announced build-backend task may use the package index.",
    ),
    Key(
        name=_ENVIRONMENT + "carry",
        kind=Kind.PATHS,
        proof=True,
        about="Ignored folders that tasks need; bound read-only.",
    ),
    Key(
        name=_ENVIRONMENT + "carry_files",
        kind=Kind.PATHS,
        proof=True,
        about="Ignored files that tasks need; copied, and part of the snapshot id. 64 MB in all.",
    ),
    Key(
        name=_ENVIRONMENT + "python",
        kind=Kind.TEXT,
        proof=True,
        about="The project's interpreter; empty: it is looked for.",
    ),
    Key(
        name=_ENVIRONMENT + "isolation",
        kind=Kind.CHOICE,
        choices=("auto", "snapshot", "copy", "live"),
        strictness={"live": 0, "auto": 1, "snapshot": 1, "copy": 1},
        proof=True,
        about="The tier tasks run in; auto is the best this machine allows, live is not isolated.",
    ),
    Key(
        name=_ENVIRONMENT + "task_timeout_s",
        kind=Kind.NUMBER,
        least=1,
        most=7 * _DAY_S,
        proof=True,
        about="The longest one task may take, in seconds.",
    ),
    Key(
        name=_ENVIRONMENT + "task_idle_s",
        kind=Kind.NUMBER,
        least=1,
        most=7 * _DAY_S,
        proof=True,
        about="A task that neither prints nor reports for so many seconds is ended.",
    ),
    Key(
        name=_ENVIRONMENT + "state_max_bytes",
        kind=Kind.WHOLE,
        least=100_000_000,
        about="How large the state folder may become before old things go.",
    ),
    Key(
        name=_ENVIRONMENT + "keep_runs",
        kind=Kind.WHOLE,
        least=1,
        about="How many runs of a workspace are kept.",
    ),
    Key(
        name=_ENVIRONMENT + "daemon_idle_s",
        kind=Kind.NUMBER,
        least=1,
        about="The daemon stops after so many seconds without a client and without work.",
    ),
    Key(
        name=_ENVIRONMENT + "ladder.diagnose_files_enabled",
        kind=Kind.FLAG,
        about="Whether `diagnose.files` runs; when it does not it is skipped, never a pass.",
    ),
    Key(
        name=_ENVIRONMENT + "ladder.test_full_require_explicit",
        kind=Kind.FLAG,
        about="Whether `test.full` runs only where the caller names the policy that asks for it.",
    ),
    Key(
        name=_ENVIRONMENT + "ladder.main_branches",
        kind=Kind.TEXTS,
        about="Branches on which `strict` climbs to `test.full`.",
    ),
    Key(
        name=_ENVIRONMENT + "time_accounting.show_in_chat",
        kind=Kind.FLAG,
        about="Whether the Verify Epoch block ends with where the time went.",
    ),
    Key(
        name=f"{PROFILES}.{ANY}.command",
        kind=Kind.COMMAND,
        proof=True,
        about="The command of a test profile; `{selection}` stands for the chosen node ids.",
    ),
    Key(
        name=f"{PROFILES}.{ANY}.timeout_s",
        kind=Kind.NUMBER,
        least=1,
        most=7 * _DAY_S,
        proof=True,
        about="The longest the profile may take, in seconds.",
    ),
)

BY_NAME: Mapping[str, Key] = {key.name: key for key in KEYS}

# Names from before; read until the version given, never shown.
REMOVED_IN = "1.0"
ALIASES: Mapping[str, str] = {
    _ENVIRONMENT + "ladder.l0_enabled": _ENVIRONMENT + "ladder.diagnose_files_enabled",
    _ENVIRONMENT + "ladder.l4_require_explicit": _ENVIRONMENT + "ladder.test_full_require_explicit",
}

# Keys that belong to parts this version does not have: nothing would obey them.
UNREAD: frozenset[str] = frozenset(
    {
        _ENVIRONMENT + "shell_escape_tier",
        _ENVIRONMENT + "on_contract_violation",
        _ENVIRONMENT + "time_accounting.instrument_enabled",
        _ENVIRONMENT + "time_accounting.pfd_instrument_enabled",
        _ENVIRONMENT + "time_accounting.idle_user_threshold_ms",
        "dev_services",
    }
)


_BY_PATH: Mapping[tuple[str, ...], Key] = {tuple(key.name.split(".")): key for key in KEYS}
_ALIAS_PATHS: Mapping[tuple[str, ...], tuple[str, ...]] = {
    tuple(old.split(".")): tuple(new.split(".")) for old, new in ALIASES.items()
}


def find_key(path: tuple[str, ...]) -> Key | None:
    """The key at a path of names, those under `test_profiles` matched by their place."""
    return _BY_PATH.get(_generic(path))


def renamed(path: tuple[str, ...]) -> tuple[str, ...]:
    """A path under its name of today."""
    return _ALIAS_PATHS.get(path, path)


def is_table(path: tuple[str, ...]) -> bool:
    """Whether keys lie below a path."""
    wanted = _generic(path)
    return any(
        len(known) > len(wanted) and known[: len(wanted)] == wanted for known in (*_BY_PATH, *_ALIAS_PATHS)
    )


def _generic(path: tuple[str, ...]) -> tuple[str, ...]:
    """A path with the user's own names replaced by `*`."""
    return (PROFILES, ANY, *path[2:]) if path[:1] == (PROFILES,) and len(path) > 1 else path
