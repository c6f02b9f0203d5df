"""Glideslope as a user has it: its command line, its daemon, a state folder of this process's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.long.project import clean_environment

LIMIT_S = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What one `verify` answered. `wall_s` is the command's, from start to end."""

    exit_code: int
    run: dict[str, Any]
    wall_s: float

    @property
    def verdict(self) -> str:
        return str(self.run["verdict"])

    def rung(self, name: str) -> dict[str, Any]:
        """The rung of that name, as in the run's JSON."""
        return next(rung for rung in self.run["rungs"] if rung["verify_rung"] == name)

    def states(self) -> dict[str, str]:
        return {rung["verify_rung"]: rung["state"] for rung in self.run["rungs"]}

    def failing(self, rung: str, *classes: str) -> tuple[str, ...]:
        """Node ids of that rung's failing tests of those classes, sorted."""
        tests = self.rung(rung)["tests"] or {"failing": []}
        return tuple(sorted(test["nodeid"] for test in tests["failing"] if test["class"] in classes))

    def story(self) -> str:
        """What a person needs to see when the verdict is not the expected one."""
        lines = [f"verdict {self.verdict}, exit {self.exit_code}, base {self.run['base_reason']}"]
        for rung in self.run["rungs"]:
            lines.append(f"{rung['verify_rung']} {rung['state']} {rung['reason']}: {rung['summary']}")
            lines += [str(found) for found in rung["diagnostics"] if found["blocking"]][:10]
            if rung["state"] in ("fail", "died", "inconclusive"):
                lines.append(str(rung["stderr_tail"]))
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """The commands on one repository."""

    state: Path
    folder: Path

    def verify(self, *arguments: str) -> Verified:
        """Runs `glideslope verify ARGUMENTS`; whatever the verdict, it must answer with a run."""
        began = time.monotonic()
        ended = self.call("verify", *arguments, "--json")
        wall_s = time.monotonic() - began
        envelope = json.loads(ended.stdout or "null")
        if envelope is None or envelope["data"] is None:
            raise AssertionError(
                f"verify {arguments} ended {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
            )
        return Verified(exit_code=ended.returncode, run=envelope["data"], wall_s=wall_s)

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = (*self.argv(*arguments), "--repo", str(self.folder))
        return subprocess.run(
            argv, cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=LIMIT_S
        )

    def argv(self, *arguments: str) -> tuple[str, ...]:
        return (sys.executable, "-m", "glideslope", *arguments)

    def environment(self) -> dict[str, str]:
        ours = {"GLIDESLOPE_STATE_DIR": str(self.state)}
        if "PYTHONPATH" in os.environ:  # where glideslope itself is not installed
            ours["PYTHONPATH"] = os.environ["PYTHONPATH"]
        return clean_environment() | ours


@contextmanager
def product(state: Path, folder: Path) -> Iterator[Product]:
    """The product on that repository, nothing known about it; its daemon is stopped at the end."""
    state.mkdir(mode=0o700, exist_ok=True)
    ours = Product(state=state, folder=folder)
    try:
        yield ours
    finally:
        subprocess.run(
            ours.argv("daemon", "stop"), cwd=folder, env=ours.environment(), capture_output=True, timeout=60
        )
