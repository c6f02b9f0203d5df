"""Other versions of Python and pytest, and the plugins that change how tests run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.integration.rungs import context_of, drive, interpreter, write
from tests.integration.test_pytest_run import NASTY, SKIPPED_MODULE, assert_same, our_run

from glideslope.model.result import RungState
from glideslope.ports.toolchain import ProjectRung
from glideslope.toolchains.python.endings import read_session
from glideslope.toolchains.python.module import Memo
from glideslope.toolchains.python.tests import full, scoped

pytestmark = [pytest.mark.process, pytest.mark.long]

PAIRS = [
    ("3.9", "pytest==7.0.1"),
    ("3.9", "pytest==8.4.*"),
    ("3.10", "pytest==7.4.*"),
    ("3.11", "pytest==8.0.*"),
    ("3.12", "pytest==9.0.*"),
    ("3.13", "pytest>=9"),
]
PLUGINS = "pytest pytest-xdist pytest-cov pytest-asyncio pytest-randomly pytest-rerunfailures pytest-random-order pytest-timeout"

Maker = Callable[[str, str], str]


def python_of(version: str) -> str | None:
    """An interpreter of a version: from GLIDESLOPE_TEST_PYTHONS (paths, separated by colons), or on PATH."""
    named = os.environ.get("GLIDESLOPE_TEST_PYTHONS", "").split(os.pathsep)
    for candidate in [*filter(None, named), shutil.which(f"python{version}")]:
        if candidate is None:
            continue
        code = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([candidate, "-c", code], capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return candidate
    return None


@pytest.fixture(scope="session")
def made(pytestconfig: pytest.Config) -> Maker:
    assert pytestconfig.cache is not None
    folder = pytestconfig.cache.mkdir("pytest-matrix")

    def make(version: str, requirements: str) -> str:
        python = python_of(version)
        if python is None:
            pytest.skip(f"there is no Python {version}")
        name = "".join(letter if letter.isalnum() else "-" for letter in f"{version}-{requirements}")
        environment = folder / name
        if not (environment / "ready").exists():
            subprocess.run([python, "-m", "venv", "--clear", environment], check=True)
            pip = [environment / "bin" / "python", "-m", "pip", "install", "-q", *requirements.split()]
            subprocess.run(pip, check=True)
            (environment / "ready").touch()
        return str(environment / "bin" / "python")

    return make


@pytest.mark.parametrize(("version", "requirement"), PAIRS)
def test_counts_agree_on_every_supported_version(
    made: Maker, tmp_path: Path, version: str, requirement: str
) -> None:
    root = write(
        tmp_path / "nasty é",
        {"tests/test_a.py": NASTY, "tests/test_skipped.py": SKIPPED_MODULE, "pytest.ini": "[pytest]\n"},
    )
    session = assert_same(root, python=made(version, requirement))
    assert {case.nodeid for case in session.failing} >= {"tests/test_a.py::test_fails"}


@pytest.mark.parametrize(("version", "requirement"), PAIRS)
def test_a_selection_keeps_packages_and_node_ids(
    made: Maker, tmp_path: Path, version: str, requirement: str
) -> None:
    root = write(
        tmp_path,
        {
            "pytest.ini": "[pytest]\ntestpaths = tests\n",
            "tests/__init__.py": "",
            "tests/conftest.py": "import pytest\n@pytest.fixture(scope='package')\ndef name(request): return request.node.nodeid\n",
            "tests/deep/__init__.py": "",
            "tests/deep/test_a.py": "def test_a(name): assert name == 'NAME'\n",
            "tests/deep/test_b.py": "raise RuntimeError\n",
        },
    )
    python = made(version, requirement)
    chosen = read_session(our_run(root, python=python, only=("tests/deep/test_a.py",)).report)
    plain = read_session(our_run(root, "tests/deep/test_a.py", python=python).report)
    assert chosen.ended == plain.ended == {"tests/deep/test_a.py::test_a"}
    assert chosen.failing[0].message == plain.failing[0].message


@pytest.mark.parametrize(("version", "requirement"), PAIRS)
@pytest.mark.parametrize(
    ("files", "path", "line"),
    [
        ({"conftest.py": "x = 1\nraise RuntimeError('on purpose')\n"}, "conftest.py", 2),
        ({"conftest.py": "x = (\n"}, "conftest.py", 1),
        ({"pytest.ini": "[pytest]\naddopts = --no-such-option\n"}, "pytest.ini", 0),
        ({"pytest.ini": "[pytest\n"}, "pytest.ini", 1),
        ({"pyproject.toml": "[tool.pytest.ini_options]\nx = \n"}, "pyproject.toml", 2),
    ],
)
def test_configuration_errors_are_told_by_every_version(
    made: Maker, tmp_path: Path, version: str, requirement: str, files: dict[str, str], path: str, line: int
) -> None:
    root = write(tmp_path / "now", {"test_ok.py": "def test_ok(): pass\n", **files})
    context = replace(context_of(root), interpreter=interpreter(made(version, requirement)))
    rung, _ = drive(full(context, Memo()), root)
    assert (rung.state, rung.reason) == (RungState.FAIL, "config_error")
    assert (rung.diagnostics[0].path, rung.diagnostics[0].line) == (path, line)


def plugged_run(made: Maker, root: Path, base: Path | None = None, *, whole: bool = False) -> ProjectRung:
    context = replace(context_of(root, base), interpreter=interpreter(made("3.11", PLUGINS)))
    rung, _ = drive((full if whole else scoped)(context, Memo()), root, base)
    return rung


LAZY = {
    "app.py": "def used(): return 1\ndef unused():\n    a = 1\n    b = 2\n    return a + b\n",
    "test_app.py": "import app\ndef test_used(): assert app.used() == 1\n",
    "test_more.py": "import app\ndef test_more(): pass\n",
}


def test_options_of_plugins_are_taken_back_and_named(made: Maker, tmp_path: Path) -> None:
    ini = "[pytest]\naddopts = -n auto --cov=app --cov-fail-under=100 -x --lf --reruns 2 --random-order -p no:randomly\n"
    rung = plugged_run(made, write(tmp_path / "now", {**LAZY, "pytest.ini": ini}))
    assert rung.state is RungState.PASS
    assert rung.summary == (
        "2 of 2 test files, 2 passed (without --maxfail, --lf, --reruns, --random-order, -n, --cov)"
    )


def test_a_full_run_changes_nothing_and_lacks_coverage(made: Maker, tmp_path: Path) -> None:
    ini = "[pytest]\naddopts = -n 2 --cov=app --cov-fail-under=100\n"
    rung = plugged_run(made, write(tmp_path / "now", {**LAZY, "pytest.ini": ini}), whole=True)
    assert (rung.state, rung.reason) == (RungState.FAIL, "coverage")
    assert "100" in rung.summary
    assert rung.tests is not None
    assert (rung.tests.passed, rung.tests.failed, rung.tests.total) == (2, 0, 2)


@pytest.mark.parametrize(
    "options",
    ["-n 2", "-p no:xdist", "-p no:cov -p no:randomly", "--disable-plugin-autoload", "-n 2 --dist loadfile"],
)
def test_counts_agree_with_plugins(made: Maker, tmp_path: Path, options: str) -> None:
    root = write(
        tmp_path,
        {
            "test_a.py": NASTY,
            "pytest.ini": f"[pytest]\naddopts = {options}\nasyncio_default_fixture_loop_scope = function\n",
        },
    )
    assert_same(root, python=made("3.11", PLUGINS))


@pytest.mark.parametrize("options", ["-p no:xdist", "-p no:cov", "--disable-plugin-autoload", ""])
def test_a_selection_runs_whatever_plugins_are_switched_off(
    made: Maker, tmp_path: Path, options: str
) -> None:
    root = write(tmp_path / "now", {**LAZY, "pytest.ini": f"[pytest]\naddopts = {options}\n"})
    assert plugged_run(made, root).summary == "2 of 2 test files, 2 passed"


def test_repeated_tests_count_as_plain_pytest_counts_them(made: Maker, tmp_path: Path) -> None:
    text = (
        "import pytest\n"
        "SEEN = []\n"
        "@pytest.mark.flaky(reruns=2)\n"
        "def test_second_time():\n    SEEN.append(1)\n    assert len(SEEN) > 1\n"
        "@pytest.mark.flaky(reruns=1)\n"
        "def test_never(): assert 0\n"
    )
    root = write(tmp_path, {"test_a.py": text, "pytest.ini": "[pytest]\n"})
    session = assert_same(root, python=made("3.11", PLUGINS))
    assert (session.counts["passed"], session.counts["failed"], len(session.failing)) == (1, 1, 1)


def test_a_lost_worker_of_xdist_is_a_failing_test(made: Maker, tmp_path: Path) -> None:
    text = "import os\ndef test_ok(): pass\ndef test_crash(): os._exit(1)\n"
    root = write(tmp_path / "now", {"test_a.py": text, "pytest.ini": "[pytest]\naddopts = -n 1\n"})
    rung = plugged_run(made, root, whole=True)
    assert rung.state is RungState.FAIL
    assert rung.tests is not None
    assert [case.nodeid for case in rung.tests.failing] == ["test_a.py::test_crash"]


def test_asynchronous_tests_run(made: Maker, tmp_path: Path) -> None:
    text = "import asyncio\nasync def test_a(): await asyncio.sleep(0)\n"
    root = write(
        tmp_path,
        {
            "test_a.py": text,
            "pytest.ini": "[pytest]\nasyncio_mode = auto\nfilterwarnings = error\nasyncio_default_fixture_loop_scope = function\n",
        },
    )
    assert assert_same(root, python=made("3.11", PLUGINS)).counts == {"passed": 1}
