"""Our pytest run is plain pytest with a stream: same counts, same order, nothing to trip over."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.rungs import WORKER, run_command, write

from glideslope.ports.toolchain import Command, Output
from glideslope.toolchains.python.endings import Session, read_session

pytestmark = pytest.mark.process

NASTY = """
import os
import unittest
import warnings

import pytest


def test_passes(): pass

def test_fails():
    left = 1
    assert left == 2, "longer words"

@pytest.fixture
def breaks_late():
    yield
    raise RuntimeError("teardown")

def test_passes_and_breaks_late(breaks_late): pass

def test_fails_and_breaks_late(breaks_late): assert 0

@pytest.fixture
def breaks_early(): raise ValueError("setup")

def test_breaks_early(breaks_early): pass

@pytest.mark.skip
def test_skipped(): pass

@pytest.mark.xfail
def test_xfails(): assert 0

@pytest.mark.xfail
def test_xpasses(): pass

@pytest.mark.xfail(strict=True)
def test_xpasses_strictly(): pass

def helper(value): raise KeyError(value)

@pytest.mark.parametrize("value", ["a/b", "é☃", "x::y"])
def test_strange_ids(value): helper(value)

class TestOld(unittest.TestCase):
    def test_sub(self):
        for i in range(3):
            with self.subTest(i=i):
                self.assertNotEqual(i, 1)

def test_warns(): warnings.warn("w")

def test_forks_and_the_child_goes_on_for_a_while():
    child = os.fork()
    if child == 0:
        try:
            raise SystemExit
        finally:
            os._exit(0)
    os.waitpid(child, 0)

class Unprintable(Exception):
    def __str__(self): raise TypeError("no")

def test_raises_something_that_cannot_be_shown(): raise Unprintable

def test_replaces_os_write(monkeypatch):
    monkeypatch.setattr(os, "write", None)
    monkeypatch.setattr(os, "getpid", None)
    monkeypatch.setattr(os, "fstat", None)
"""

SKIPPED_MODULE = 'import pytest\npytest.skip("no", allow_module_level=True)\n'


def our_run(
    root: Path, *arguments: str, python: str = sys.executable, only: tuple[str, ...] | None = None
) -> Output:
    options = () if only is None else ("--only-from-stdin", "--steady")
    argv = (python, str(WORKER / "pytest_run.py"), "--report-fd", "{report_fd}", *options, "--", *arguments)
    chosen = "".join(path + "\0" for path in only or ())
    return run_command(Command(kind="pytest.run", argv=argv, cwd="", stdin=os.fsencode(chosen)), root)


def plain_run(root: Path, *arguments: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} if python == sys.executable else {}
    argv = [python, "-m", "pytest", *arguments]
    return subprocess.run(argv, cwd=root, capture_output=True, text=True, env={**os.environ, **alone})


def printed_counts(text: str) -> dict[str, int]:
    """The counts of pytest's last line, without warnings."""
    last = [line for line in text.splitlines() if re.search(r" in [\d.]+s", line)][-1]
    found = {
        word: int(number) for number, word in re.findall(r"(\d+) ([a-z]+(?: passed)?)", last.split(" in ")[0])
    }
    if "errors" in found:
        found["error"] = found.pop("errors")
    return {word: number for word, number in found.items() if not word.startswith("warning")}


def streamed_counts(output: Output) -> tuple[dict[str, int], Session]:
    session = read_session(output.report)
    counts = dict(session.counts)
    finish = [record for line in output.report if (record := json.loads(line))["kind"] == "finish"]
    if finish and finish[0]["deselected"]:
        counts["deselected"] = finish[0]["deselected"]
    return counts, session


def assert_same(root: Path, *arguments: str, python: str = sys.executable) -> Session:
    ours, plain = our_run(root, *arguments, python=python), plain_run(root, *arguments, python=python)
    counts, session = streamed_counts(ours)
    assert counts == printed_counts(plain.stdout)
    assert ours.code == plain.returncode
    assert printed_counts(ours.stdout.decode()) == printed_counts(plain.stdout)
    assert session.finished
    return session


@pytest.fixture
def nasty(tmp_path: Path) -> Path:
    return write(
        tmp_path / "nasty é",
        {"tests/test_a.py": NASTY, "tests/test_skipped.py": SKIPPED_MODULE, "pytest.ini": "[pytest]\n"},
    )


def test_counts_are_those_that_plain_pytest_prints(nasty: Path) -> None:
    session = assert_same(nasty, "-k", "not xpasses_strictly")
    assert session.total == 16
    by_name = {case.nodeid.split("::", 1)[1]: case for case in session.failing}
    assert by_name["test_fails"].line == 13
    assert by_name["test_fails"].path == str(nasty / "tests/test_a.py")
    assert by_name["test_fails"].message.splitlines() == ["AssertionError: longer words", "assert 1 == 2"]
    assert by_name["test_passes_and_breaks_late"].errors
    assert not by_name["test_fails_and_breaks_late"].errors
    assert by_name["test_raises_something_that_cannot_be_shown"].line


def test_counts_agree_without_a_terminal(nasty: Path) -> None:
    with_terminal, _ = streamed_counts(our_run(nasty))
    without, session = streamed_counts(our_run(nasty, "-p", "no:terminal"))
    assert session.finished
    assert without == with_terminal


def test_a_strict_suite_has_nothing_to_trip_over(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "pytest.ini": "[pytest]\naddopts = --strict-config --strict-markers -p no:cacheprovider\nfilterwarnings = error\n",
            "conftest.py": "",
            "test_self.py": """
import os, sys

def test_the_process_looks_like_plain_pytest(pytestconfig):
    assert sys.path[0] == os.getcwd() or os.getcwd() in sys.path
    assert not [path for path in sys.path if "worker" in path]
    assert os.path.basename(sys.argv[0]) == "__main__.py"
    assert sys.modules["__main__"].__spec__.name == "pytest.__main__"
    assert not [name for name in sys.modules if "glideslope" in name or name == "stream"]
    assert not [name for name, _ in pytestconfig.pluginmanager.list_name_plugin() if "glideslope" in str(name)]
    assert pytestconfig.invocation_params.args == ()

def test_low_descriptors_are_free():
    fd = os.open(os.devnull, os.O_RDONLY)
    os.close(fd)
    assert fd < 20

def test_children_do_not_inherit_the_stream():
    import subprocess
    code = "import os; print(*(os.readlink(f'/proc/self/fd/{fd}') for fd in range(3, 1100) if os.path.exists(f'/proc/self/fd/{fd}')))"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, close_fds=False).stdout
    assert "pipe:" not in seen

def test_processes_can_be_spawned():
    import multiprocessing
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(abs, [-1]) == [1]
""",
        },
    )
    assert_same(root)


def test_only_chosen_files_are_collected_and_ids_stay_the_same(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "pyproject.toml": '[tool.pytest.ini_options]\ntestpaths = ["tests"]\naddopts = "--ignore=tests/left_out -x"\n',
            "tests/__init__.py": "",
            "tests/conftest.py": 'collect_ignore = ["test_ignored.py"]\n',
            "tests/test_ignored.py": "raise RuntimeError\n",
            "tests/left_out/test_x.py": "raise RuntimeError\n",
            "tests/test_broken.py": "raise RuntimeError\n",
            "tests/deep/__init__.py": "",
            "tests/deep/test_b.py": "def test_no(): assert 0\ndef test_yes(): pass\n",
            "tests/deep/elsewhere/conftest.py": "raise RuntimeError\n",
            "tests/deep/elsewhere/test_c.py": "",
        },
    )
    output = our_run(root, only=("tests/deep/test_b.py", "tests/test_ignored.py"))
    session = read_session(output.report)
    assert session.ended == {"tests/deep/test_b.py::test_no", "tests/deep/test_b.py::test_yes"}
    assert session.neutralised == ("--maxfail",)
    assert output.code == 1


def test_of_many_failures_only_the_first_are_shown_in_full(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "test_many.py": "import pytest\n@pytest.mark.parametrize('i', range(120))\ndef test_no(i): assert i == -1\n"
        },
    )
    session = read_session(our_run(tmp_path).report)
    assert len(session.failing) == session.counts["failed"] == 120
    assert [bool(case.detail) for case in session.failing] == [True] * 50 + [False] * 70
    assert all(case.line == 3 and case.message for case in session.failing)


def test_long_messages_are_cut(tmp_path: Path) -> None:
    write(tmp_path, {"test_long.py": "def test_no(): raise ValueError('x' * 100_000)\n"})
    (case,) = read_session(our_run(tmp_path).report).failing
    assert 300 < len(case.message) < 500
    assert len(case.detail) < 7000
