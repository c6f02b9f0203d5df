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
    from glideslope.model.result import Diagnostic, RungResult, RungState, TestCase, TestCounts, Verdict
    from glideslope.model.rung import Rung, VerifyPolicy
    from glideslope.model.settings import SandboxProfile, Settings
    from glideslope.surfaces.api import Run, open, run

__all__ = [
    "Diagnostic",
    "EnvironmentBroken",
    "GlideslopeError",
    "InternalError",
    "Refused",
    "RequestError",
    "Run",
    "Rung",
    "RungResult",
    "RungState",
    "SandboxProfile",
    "Settings",
    "Stale",
    "TestCase",
    "TestCounts",
    "Verdict",
    "VerifyPolicy",
    "open",
    "run",
]

_HOMES = {
    "errors": "EnvironmentBroken GlideslopeError InternalError Refused RequestError Stale",
    "model.result": "Diagnostic RungResult RungState TestCase TestCounts Verdict",
    "model.rung": "Rung VerifyPolicy",
    "model.settings": "SandboxProfile Settings",
    "surfaces.api": "Run open run",
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
