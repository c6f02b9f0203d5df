"""The variables a task starts with: a short list of allowed ones, and its private folders."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from glideslope.model.ids import RunId
from glideslope.model.sandbox import Substrate
from glideslope.model.settings import SandboxProfile

RUN_MARK = "GLIDESLOPE_RUN_ID"
"""Carried by every process of a run, so that one left behind can be recognised from outside."""

_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_PASSED = frozenset({"LANG", "LANGUAGE", "LD_LIBRARY_PATH", "LOGNAME", "TZ", "USER"})
_FIXED = MappingProxyType({"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"})


def substrate_variables(substrate: Substrate) -> Mapping[str, str]:
    """The variables that point a task at its private folders."""
    return {
        "TMPDIR": substrate.temporary,
        "HOME": substrate.home,
        "XDG_CACHE_HOME": f"{substrate.home}/.cache",
        "XDG_CONFIG_HOME": f"{substrate.home}/.config",
        "XDG_DATA_HOME": f"{substrate.home}/.local/share",
        "XDG_STATE_HOME": f"{substrate.home}/.local/state",
        "GLIDESLOPE_DATA": substrate.data,
    }


def plan_environment(
    profile: SandboxProfile,
    outer: Mapping[str, str],
    *,
    run: RunId,
    interpreter_folder: str | None = None,
    substrate: Substrate | None = None,
    extra: Mapping[str, str] | None = None,
) -> Mapping[str, str]:
    """Builds the complete environment of a task.

    Args:
        profile: `operator` passes the operator's variables; any other only a fixed few.
        outer: The operator's variables.
        run: The run the task belongs to.
        interpreter_folder: Absolute folder of the project's interpreter; comes first on PATH.
        substrate: The private folders; None for those inside a sandbox.
        extra: Variables of this one command, laid over all others.

    Returns:
        The variables. `CI` is never set: projects behave differently under it. Git's and our
        own are never passed on: they would point into another repository, or at our state.
    """
    folders = substrate_variables(substrate or Substrate())
    if profile is SandboxProfile.OPERATOR:
        passed = {name: text for name, text in outer.items() if not name.startswith(("GIT_", "GLIDESLOPE"))}
        # The home stays the operator's: that is what this profile is for.
        folders = {name: folders[name] for name in ("TMPDIR", "GLIDESLOPE_DATA")}
    else:
        passed = {name: text for name, text in outer.items() if name in _PASSED or name.startswith("LC_")}
        passed.setdefault("LANG", "C.UTF-8")
    path = _search_path(outer.get("PATH", ""), interpreter_folder)
    return {**passed, **_FIXED, **folders, "PATH": path, RUN_MARK: run, **(extra or {})}


def _search_path(outer: str, interpreter_folder: str | None) -> str:
    """PATH without relative entries, which would find programs in the repository."""
    found = [part for part in (outer or _SYSTEM_PATH).split(":") if part.startswith("/")]
    first = [interpreter_folder] if interpreter_folder else []
    return ":".join(dict.fromkeys(first + found))
