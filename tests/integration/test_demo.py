"""The demo notices when a verdict is not the one it is there to show.

Verdicts come from a stand-in for the command line, so that they can be wrong; `make demo` itself
runs the real one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TEST = "tests/test_pricing.py::test_tax_is_on_the_discounted_price"

STAND_IN = """
import json, os, pathlib, sys

state = pathlib.Path(os.environ["GLIDESLOPE_STATE_DIR"])
state.mkdir(exist_ok=True)
count = state / "count"
done = int(count.read_text()) if count.exists() else 0
answers = json.loads(os.environ["ANSWERS"])
match sys.argv[1:]:
    case ["verify", "standard"]:
        count.write_text(str(done + 1))
        print("Status:", answers[done]["verdict"])
        sys.exit({"green": 0, "red": 1}[answers[done]["verdict"]])
    case ["last", "--json"]:
        print(json.dumps({"ok": True, "data": answers[done - 1]}))
    case ["daemon", "stop"]:
        pathlib.Path(os.environ["STOPPED"]).touch()
"""

pytestmark = pytest.mark.process


def answer(failed: str = "", *, line: int = 0) -> dict[str, Any]:
    """A run as `last --json` gives it, red at one rung or green."""
    rungs = ["diagnose.files", "compile.project", "build.affected", "test.scoped"]
    failing = [{"nodeid": TEST, "line": line}] if line else []
    return {
        "verdict": "red" if failed else "green",
        "current": True,
        "time_ms": {"wall": 12, "environment": 9},
        "rungs": [
            {
                "verify_rung": rung,
                "state": "fail" if rung == failed else "skipped" if rung == "test.scoped" else "pass",
                "duration_ms": 3,
                "tests": {"failing": failing} if rung == "test.scoped" else None,
            }
            for rung in rungs[: rungs.index(failed) + 1 if failed else None]
        ],
    }


def line_of_the_test() -> int:
    text = (ROOT / "examples" / "shop" / "tests" / "test_pricing.py").read_text()
    return text[: text.index("def test_tax_is_on_the_discounted_price")].count("\n") + 1


def expected() -> list[dict[str, Any]]:
    behaviour = answer("test.scoped", line=line_of_the_test() + 2)
    return [answer(), answer(), answer("compile.project"), answer(), behaviour, answer()]


def play(folder: Path, answers: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    stand_in = folder / "stand-in" / "glideslope"
    stand_in.mkdir(parents=True)
    (stand_in / "__init__.py").touch()
    (stand_in / "__main__.py").write_text(STAND_IN)
    (folder / "tmp").mkdir()
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py")],
        env={
            **os.environ,
            "PYTHONPATH": str(stand_in.parent),
            "ANSWERS": json.dumps(answers),
            "STOPPED": str(folder / "stopped"),
            "TMPDIR": str(folder / "tmp"),
        },
        capture_output=True,
        text=True,
    )


def test_all_as_expected_ends_well_and_leaves_nothing(tmp_path: Path) -> None:
    played = play(tmp_path, expected())
    assert played.returncode == 0, played.stderr
    assert "All 6 verdicts as expected" in played.stdout
    assert (tmp_path / "stopped").exists()
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("step", "wrong", "said"),
    [
        (0, answer("test.scoped", line=1), "exit code 1, expected 0"),
        (2, answer(), "exit code 0, expected 1"),
        (2, answer("test.scoped", line=1), "failed rungs ['test.scoped']"),
        (4, answer("diagnose.files"), "failed rungs ['diagnose.files']"),
        (4, answer("test.scoped"), "is not among the failing tests"),
        (4, answer("test.scoped", line=1), "line 1 is not in"),
        (5, {**answer(), "current": False}, "not current"),
    ],
)
def test_one_wrong_answer_fails_it_and_says_which(
    tmp_path: Path, step: int, wrong: dict[str, Any], said: str
) -> None:
    answers = expected()
    answers[step] = wrong
    played = play(tmp_path, answers)
    assert played.returncode == 1
    assert said in played.stderr
    assert (tmp_path / "stopped").exists()
