"""Looks at everything a verify needs and says what is missing, and how to get it."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from glideslope.engine.actions import Diagnosis, Doctor, HealthCheck
from glideslope.engine.survey import Survey, Surveyor
from glideslope.errors import GlideslopeError
from glideslope.model.project import Interpreter
from glideslope.model.sandbox import Isolation, SandboxProbe
from glideslope.ports.storage import Storage
from glideslope.ports.toolchain import Tools

EFFECTS = {
    Isolation.SNAPSHOT: "tier snapshot: tasks run on an overlay over the snapshot, at the project's own path",
    Isolation.COPY: "tier copy: each task runs on a plain copy of the snapshot; slower, as true",
    Isolation.LIVE: "tier live: tasks run in your working tree; a write during a run makes it stale",
}


def examine(
    action: Doctor, *, probe: SandboxProbe, surveyor: Surveyor, tools: Tools, storage: Storage
) -> Diagnosis:
    """Makes every check, in a fixed order. Blocks."""
    checks = [_sandbox(probe), *(_missing(name, why) for name, why in sorted(probe.missing.items()))]
    checks.append(_guarded("state", lambda: _state(storage)))
    checks.append(HealthCheck(id="ruff", state="ok", effect=f"{' '.join(tools.ruff)} ({tools.ruff_version})"))
    checks.append(HealthCheck(id="ty", state="ok", effect=" ".join(tools.ty)))
    try:
        survey = surveyor.look(surveyor.question(action.caller, action.python))
    except GlideslopeError as error:
        checks.append(_broken("workspace", error))
        return Diagnosis(checks=tuple(checks))
    checks.append(_workspace(survey))
    checks += [_interpreter(survey, name) for name in survey.interpreters]
    checks += [
        HealthCheck(id="settings", state="degraded", effect=warning) for warning in survey.loaded.warnings
    ]
    return Diagnosis(checks=tuple(checks))


def _sandbox(probe: SandboxProbe) -> HealthCheck:
    state = "ok" if probe.isolation is Isolation.SNAPSHOT else "degraded"
    return HealthCheck(id="isolation", state=state, effect=EFFECTS[probe.isolation])


def _missing(name: str, why: str) -> HealthCheck:
    return HealthCheck(id=f"isolation.{name}", state="missing", effect=why)


def _state(storage: Storage) -> HealthCheck:
    storage.require_space()
    return HealthCheck(
        id="state", state="ok", effect=f"state folder holds {storage.size_bytes() // 1_000_000} MB"
    )


def _workspace(survey: Survey) -> HealthCheck:
    names = ", ".join(project.name for project in survey.projects)
    count = len(survey.snapshot.entries)
    return HealthCheck(
        id="workspace", state="ok", effect=f"{survey.workspace.scope}: {count} files, projects {names}"
    )


def _interpreter(survey: Survey, name: str) -> HealthCheck:
    found = survey.interpreters[name]
    check = "interpreter" if name == "." else f"interpreter.{name}"  # "." is the project at the root
    if not isinstance(found, Interpreter):
        return _broken(check, found)
    version = ".".join(str(part) for part in found.version)
    effect = f"{found.executable} ({version}, by {found.how})"
    if found.has("pytest"):
        return HealthCheck(id=check, state="ok", effect=f"{effect}, pytest {found.distributions['pytest']}")
    return HealthCheck(
        id=check,
        state="degraded",
        effect=f"{effect}, without pytest: only unittest suites can run",
        next=f"{shlex.quote(found.executable)} -m pip install pytest",
    )


def _guarded(name: str, check: Callable[[], HealthCheck]) -> HealthCheck:
    try:
        return check()
    except GlideslopeError as error:
        return _broken(name, error)


def _broken(name: str, error: GlideslopeError) -> HealthCheck:
    return HealthCheck(id=name, state="missing", effect=error.message, next=error.next or "")
