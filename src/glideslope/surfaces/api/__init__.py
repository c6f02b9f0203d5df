"""The Python API; see `environment`."""

from __future__ import annotations

from glideslope.surfaces.api.environment import Environment, RunHandle, open, run
from glideslope.surfaces.wire.run import WireDiagnostic as Diagnostic
from glideslope.surfaces.wire.run import WireFailing as FailingTest
from glideslope.surfaces.wire.run import WireProject as ProjectResult
from glideslope.surfaces.wire.run import WireRun as Run
from glideslope.surfaces.wire.run import WireRung as Rung
from glideslope.surfaces.wire.run import WireTests as TestCounts

__all__ = [
    "Diagnostic",
    "Environment",
    "FailingTest",
    "ProjectResult",
    "Run",
    "RunHandle",
    "Rung",
    "TestCounts",
    "open",
    "run",
]
