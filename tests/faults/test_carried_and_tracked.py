"""A carried folder that holds files of the repository: the live tree must not stand in for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glideslope.testing.rig import git

pytestmark = pytest.mark.process

SRC = Path(__file__).parents[2] / "src"
SETTINGS = '[project]\nname = "shop"\nversion = "1"\n[tool.pytest.ini_options]\npythonpath = ["."]\n'
CARRY = '[tool.glideslope.agent.environment]\ncarry = ["shop"]\n'
TEST = "from {name}.price import price\n\n\ndef test_price():\n    assert price() == 1\n"


class Desk:
    """A repository, and the command line on a state folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.repo = folder / "repo"
        self.repo.mkdir()
        self.environ = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(SRC),
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": str(folder),
            "GLIDESLOPE_STATE_DIR": str(folder / "state"),
        }

    def commit(self, name: str, carry: str) -> None:
        """A package of that name with a test, committed."""
        for path, text in {
            "pyproject.toml": SETTINGS + carry,
            f"{name}/__init__.py": "",
            f"{name}/price.py": "def price():\n    return 1\n",
            "tests/test_price.py": TEST.format(name=name),
        }.items():
            (self.repo / path).parent.mkdir(exist_ok=True)
            (self.repo / path).write_text(text)
        git(self.repo, "init", "-q", "-b", "main")
        git(self.repo, "add", ".")
        git(self.repo, "commit", "-q", "-m", "first")

    def call(self, *arguments: str) -> Any:
        """The data of one command."""
        done = subprocess.run(
            [sys.executable, "-m", "glideslope", *arguments, "--json"],
            cwd=self.repo,
            env=self.environ,
            capture_output=True,
            timeout=120,
            check=False,
        )
        return json.loads(done.stdout)["data"]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(Path(os.path.realpath(tmp_path)))
    yield made
    made.call("daemon", "stop")


@pytest.mark.parametrize(("name", "carry"), [("shop", CARRY), ("venv", "")])
def test_a_failure_is_new_although_the_settings_carry_the_folder_of_the_bug(
    desk: Desk, name: str, carry: str
) -> None:
    desk.commit(name, carry)
    (desk.repo / name / "price.py").write_text("def price():\n    return 2\n")

    found = desk.call("verify", "--python", sys.executable, "--base", "HEAD")

    assert found["verdict"] == "red"
    failing = [one for rung in found["rungs"] for one in (rung["tests"] or {}).get("failing", ())]
    assert [one["class"] for one in failing] == ["new"]
