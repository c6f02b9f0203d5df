"""The real command line, with a scripted engine behind it."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from glideslope.surfaces.cli.entry import run as run_cli
from glideslope.testing.scripted_engine import ScriptedEngine


@dataclass
class Shown:
    """How a command line ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one value on standard output."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Each line of standard output as JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass
class Cli:
    """The command line, with the scripted engine behind it."""

    engine: ScriptedEngine
    home: Path
    variables: dict[str, str] = field(default_factory=dict)
    encoding: str = "utf-8"

    def __call__(self, *arguments: str, environ: Mapping[str, str] | None = None) -> Shown:
        out = io.TextIOWrapper(io.BytesIO(), encoding=self.encoding)
        err = io.TextIOWrapper(io.BytesIO(), encoding=self.encoding)
        variables = {
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "GLIDESLOPE_STATE_DIR": str(self.home / "state"),
            **self.variables,
            **(environ or {}),
        }
        code = run_cli(list(arguments), connect=self.engine, environ=variables, out=out, err=err)
        return Shown(code=code, out=_text(out), err=_text(err))


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("utf-8")


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
def cli(engine: ScriptedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    workspace = tmp_path / "work space"
    workspace.mkdir()
    (workspace / "pyproject.toml").write_text('[project]\nname = "x"\n')
    monkeypatch.chdir(workspace)
    home = tmp_path / "home"
    home.mkdir()
    return Cli(engine=engine, home=home)
