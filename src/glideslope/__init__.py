"""Glideslope verifies edits to a repository.

The public names, and nothing else. Each is loaded when it is first asked for, so that
`import glideslope` costs next to nothing; no module of the package imports this one.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know the name; importing `typing` for it costs 20 ms

if TYPE_CHECKING:
    from glideslope.errors import (
        EnvironmentBroken,
        GlideslopeError,
        InternalError,
        Refused,
        RequestError,
        Stale,
    )
    from glideslope.model.result import FindingState, RungState, Severity, Verdict
    from glideslope.model.rung import VerifyPolicy
    from glideslope.model.settings import SandboxProfile
    from glideslope.surfaces.api import (
        Diagnostic,
        Environment,
        FailingTest,
        ProjectResult,
        Run,
        Rung,
        RunHandle,
        TestCounts,
        open,
        run,
    )

__all__ = [
    "Diagnostic",
    "Environment",
    "EnvironmentBroken",
    "FailingTest",
    "FindingState",
    "GlideslopeError",
    "InternalError",
    "ProjectResult",
    "Refused",
    "RequestError",
    "Run",
    "RunHandle",
    "Rung",
    "RungState",
    "SandboxProfile",
    "Severity",
    "Stale",
    "TestCounts",
    "Verdict",
    "VerifyPolicy",
    "open",
    "run",
]

_HOMES = {
    "errors": "EnvironmentBroken GlideslopeError InternalError Refused RequestError Stale",
    "model.result": "FindingState RungState Severity Verdict",
    "model.rung": "VerifyPolicy",
    "model.settings": "SandboxProfile",
    "surfaces.api": (
        "Diagnostic Environment FailingTest ProjectResult Run RunHandle Rung TestCounts open run"
    ),
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names.split():
            value: object = getattr(import_module(f"{__name__}.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
