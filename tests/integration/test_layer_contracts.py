"""The layer diagram is executable: violations planted in a copy are caught."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT = "from importlinter.cli import lint_imports_command as lint; lint(['--no-cache', '--config', 'pyproject.toml'])"

pytestmark = pytest.mark.process


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LINT],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )


def test_the_code_as_it_is_keeps_every_contract(copy: Path) -> None:
    found = lint(copy)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "0 broken" in found.stdout


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("machines/epoch.py", "import subprocess", "Pure layers do no I/O"),
        ("machines/epoch.py", "import time", "Pure layers do no I/O"),
        ("machines/epoch.py", "def planted():\n    import subprocess", "Pure layers do no I/O"),
        ("model/run.py", "import os", "Pure layers do no I/O"),
        ("toolchains/python/__init__.py", "import sqlite3", "Pure layers do no I/O"),
        ("machines/epoch.py", "from glideslope.engine import actions", "Layers"),
        ("model/run.py", "import glideslope.engine", "Layers"),
        ("engine/actions.py", "import glideslope.adapters", "Layers"),
        (
            "engine/actions.py",
            "import glideslope.toolchains.python",
            "Only the composition root names a language",
        ),
        ("compose.py", "import glideslope.testing", "Layers"),
        ("surfaces/client.py", "import glideslope.surfaces.cli", "Surfaces do not know each other"),
        ("worker/__init__.py", "import glideslope.errors", "The worker stands alone"),
        ("worker/__init__.py", "import anyio", "The worker stands alone"),
        ("utils.py", "", "Layers"),
        ("surfaces/helpers.py", "", "Surfaces do not know each other"),
        ("adapters/__init__.py", "import glideslope", "Nothing imports the root package"),
        ("../glideslope_fast/__init__.py", "import glideslope.model", "The fast paths stand alone"),
        ("../glideslope_fast/__init__.py", "import asyncio", "The fast paths stand alone"),
    ],
)
def test_a_planted_violation_is_caught(copy: Path, module: str, line: str, contract: str) -> None:
    with (copy / "src" / "glideslope" / module).open("a") as file:
        file.write(f"\n\n{line}\n")
    found = lint(copy)
    assert found.returncode != 0
    broken = [
        row.removesuffix("BROKEN").strip() for row in found.stdout.splitlines() if row.endswith("BROKEN")
    ]
    assert contract in broken, found.stdout + found.stderr


@pytest.mark.parametrize(
    "text",
    [
        "from pathlib import Path\n\n__all__ = ['Path']\n",
        "import datetime\n\nMOMENT = datetime.datetime.now(datetime.UTC)\n",
        "import os\n\nHOME = os.environ['HOME']\n",
        "import time\n\nBEGUN_AT = time.monotonic()\n",
    ],
)
@pytest.mark.parametrize(
    ("home", "banned"),
    [("machines", True), ("model", True), ("toolchains/python", True), ("engine", True), ("adapters", False)],
)
def test_names_that_read_the_machine_are_banned_in_the_inner_layers(
    home: str, banned: bool, text: str
) -> None:
    checked = subprocess.run(
        [
            *(sys.executable, "-m", "ruff", "check", "--no-cache", "--select", "TID251"),
            *("--stdin-filename", f"src/glideslope/{home}/planted.py", "-"),
        ],
        cwd=ROOT,
        input=text,
        capture_output=True,
        text=True,
    )
    assert ("TID251" in checked.stdout) is banned, checked.stdout + checked.stderr
