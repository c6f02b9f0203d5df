"""Every way a run of tests may end, with real processes: what the rung says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.integration.rungs import context_of, drive, interpreter, write

from glideslope.model.project import Project
from glideslope.model.result import FailureClass, RungState, Selection
from glideslope.model.rung import VerifyPolicy
from glideslope.ports.toolchain import Context, ProjectRung
from glideslope.toolchains.python.module import Memo
from glideslope.toolchains.python.tests import full, scoped

pytestmark = pytest.mark.process

INI = {"pytest.ini": "[pytest]\n"}
GREEN = {**INI, "test_ok.py": "def test_ok(): pass\n"}


def full_run(tmp_path: Path, files: Mapping[str, str], *, late: str | None = None) -> ProjectRung:
    root = write(tmp_path / "now", files)
    rung, _ = drive(full(context_of(root), Memo()), root, late=late)
    return rung


def scoped_run(
    tmp_path: Path, base: Mapping[str, str], now: Mapping[str, str], **changes: object
) -> tuple[ProjectRung, Context]:
    after, before = write(tmp_path / "now", now), write(tmp_path / "base", base)
    context = replace(context_of(after, before), **changes)  # type: ignore[arg-type]
    rung, _ = drive(scoped(context, Memo()), after, before)
    return rung, context


def test_a_passing_suite_passes(tmp_path: Path) -> None:
    rung = full_run(tmp_path, GREEN)
    assert (rung.state, rung.summary, rung.covered, rung.exit_code) == (RungState.PASS, "1 passed", "full", 0)
    assert rung.tests is not None
    assert (rung.tests.total, rung.tests.units, rung.tests.selection) == (1, 1, Selection.FULL)


def test_a_failing_test_is_named_with_file_and_line(tmp_path: Path) -> None:
    rung = full_run(tmp_path, {**GREEN, "tests/test_no.py": "def test_no():\n    x = 1\n    assert x == 2\n"})
    assert (rung.state, rung.summary) == (RungState.FAIL, "1 passed, 1 failed")
    assert rung.tests is not None
    (case,) = rung.tests.failing
    assert (case.nodeid, case.path, case.line, case.message, case.failure_class) == (
        "tests/test_no.py::test_no", "tests/test_no.py", 3, "assert 1 == 2", FailureClass.NEW,
    )  # fmt: skip
    assert rung.next == "glideslope verify --base HEAD~1  # to see whether it failed before"


def test_leaving_with_status_zero_is_no_pass(tmp_path: Path) -> None:
    rung = full_run(tmp_path, {**GREEN, "test_z.py": "import os\ndef test_exit(): os._exit(0)\n"})
    assert (rung.state, rung.reason) == (RungState.DIED, "exit")
    assert "test_z.py::test_exit" in rung.summary


def test_a_signal_names_itself_and_the_running_test(tmp_path: Path) -> None:
    text = "import os, signal\ndef test_crash(): os.kill(os.getpid(), signal.SIGSEGV)\n"
    rung = full_run(tmp_path, {**GREEN, "test_z.py": text})
    assert (rung.state, rung.reason) == (RungState.DIED, "signal")
    assert "SIGSEGV" in rung.summary
    assert "test_z.py::test_crash" in rung.summary


def test_of_a_process_that_was_ended_the_innermost_lines_of_the_project_are_shown(tmp_path: Path) -> None:
    files = {
        "deep.py": "import os\ndef end(): os.abort()\n",
        "test_z.py": "import deep\ndef test_z(): deep.end()\n",
    }
    rung = full_run(tmp_path, {**INI, **files})
    assert rung.stderr_tail is not None
    head, *frames = rung.stderr_tail.splitlines()
    assert head == "Fatal Python error: Aborted"
    assert [frame.partition(f"{tmp_path}/now/")[2] for frame in frames] == [
        'deep.py", line 2 in end', 'test_z.py", line 2 in test_z',
    ]  # fmt: skip


def test_a_file_that_does_not_import_fails_with_its_line(tmp_path: Path) -> None:
    rung = full_run(tmp_path, {**GREEN, "app.py": "import nothing_there\n", "test_z.py": "import app\n"})
    assert (rung.state, rung.reason, rung.exit_code) == (RungState.FAIL, "collection_error", 2)
    assert "No module named 'nothing_there'" in rung.summary
    (found,) = rung.diagnostics
    assert (found.path, found.line, found.code, found.blocking) == ("app.py", 1, "collection_error", True)
    assert "carry_files" not in found.message


def test_a_file_that_wants_a_module_of_ours_that_git_hides_says_what_helps(tmp_path: Path) -> None:
    files = {"inv/__init__.py": "", "test_z.py": "from inv.version import V\n"}
    rung = full_run(tmp_path, {**GREEN, **files})
    hint = "No module named 'inv.version'; if git ignores it, name it in carry_files"
    assert rung.summary.partition("; 1")[0].endswith(hint)
    assert rung.diagnostics[0].message.endswith(hint)
    assert rung.tests is not None
    assert rung.tests.failing[0].message.endswith(hint)


def test_a_syntax_error_in_a_test_fails_with_its_line(tmp_path: Path) -> None:
    rung = full_run(tmp_path, {**GREEN, "test_z.py": "x = 1\ndef broken(:\n    pass\n"})
    (found,) = rung.diagnostics
    assert (rung.state, found.path, found.line) == (RungState.FAIL, "test_z.py", 2)


@pytest.mark.parametrize(
    ("files", "path", "line", "says"),
    [
        (
            {"conftest.py": "x = 1\nraise RuntimeError('broken on purpose')\n"},
            "conftest.py",
            2,
            "broken on purpose",
        ),
        ({"conftest.py": "x = (\n"}, "conftest.py", 1, "SyntaxError"),
        ({"pytest.ini": "[pytest]\naddopts = --no-such-option\n"}, "pytest.ini", 2, "--no-such-option"),
        ({"pytest.ini": "[pytest\n"}, "pytest.ini", 1, ""),
        (
            {"pytest.ini": "", "pyproject.toml": "", "conftest.py": "import nothing_there\n"},
            "conftest.py",
            1,
            "nothing_there",
        ),
    ],
)
def test_broken_conftest_or_configuration_is_a_configuration_error(
    tmp_path: Path, files: Mapping[str, str], path: str, line: int, says: str
) -> None:
    rung = full_run(tmp_path, {**GREEN, **files})
    assert (rung.state, rung.reason, rung.exit_code) == (RungState.FAIL, "config_error", 4)
    (found,) = rung.diagnostics
    assert (found.path, found.line) == (path, line)
    assert says in found.message
    assert rung.summary == found.message
    assert str(tmp_path) not in found.message
    assert rung.tests is not None
    assert rung.tests.failing == ()
    if says == "--no-such-option":
        assert rung.next == "take --no-such-option out of pytest.ini, or install the plug-in that knows it"
    else:
        assert rung.next == f"correct {path}:{line}"


def test_of_a_wrong_option_the_files_that_were_to_run_are_not_counted(tmp_path: Path) -> None:
    now = {**APP, "pytest.ini": "[pytest]\naddopts =\n    -q\n    --no-such-option=1\n"}
    rung, _ = scoped_run(tmp_path, APP, now)
    assert (rung.state, rung.summary) == (RungState.FAIL, "unrecognized arguments: --no-such-option=1")
    assert [(found.path, found.line) for found in rung.diagnostics] == [("pytest.ini", 4)]


def test_a_broken_pyproject_is_a_configuration_error(tmp_path: Path) -> None:
    files = {"pyproject.toml": "[project]\nname = \n", "test_ok.py": "def test_ok(): pass\n"}
    rung = full_run(tmp_path, files)
    assert (rung.state, rung.reason) == (RungState.FAIL, "config_error")
    assert (rung.diagnostics[0].path, rung.diagnostics[0].line) == ("pyproject.toml", 2)


def test_a_conftest_of_a_folder_that_raises_fails(tmp_path: Path) -> None:
    rung = full_run(
        tmp_path, {**GREEN, "deep/conftest.py": "raise RuntimeError('no')\n", "deep/test_x.py": ""}
    )
    assert rung.state is RungState.FAIL
    assert rung.diagnostics[0].path == "deep/conftest.py"


def test_no_tests_at_all_prove_nothing(tmp_path: Path) -> None:
    rung = full_run(tmp_path, {**INI, "app.py": ""})
    assert (rung.state, rung.reason) == (RungState.INCONCLUSIVE, "no_tests")


def test_an_internal_error_of_pytest_is_no_failure_of_a_test(tmp_path: Path) -> None:
    hook = "def pytest_runtest_protocol(item): raise RuntimeError('hook')\n"
    rung = full_run(tmp_path, {**GREEN, "conftest.py": hook})
    assert (rung.state, rung.reason) == (RungState.DIED, "internal_error")


def test_leaving_pytest_from_a_test_fails(tmp_path: Path) -> None:
    text = "import pytest\ndef test_leave(): pytest.exit('enough', returncode=0)\ndef test_after(): pass\n"
    rung = full_run(tmp_path, {**INI, "test_x.py": text})
    assert rung.state is not RungState.PASS


def test_an_interruption_fails(tmp_path: Path) -> None:
    rung = full_run(tmp_path, {**INI, "test_x.py": "def test_stop(): raise KeyboardInterrupt\n"})
    assert (rung.state, rung.reason) == (RungState.FAIL, "interrupted")


def test_a_test_that_never_ends_is_named(tmp_path: Path) -> None:
    text = "import time\ndef test_first(): pass\ndef test_hangs(): time.sleep(600)\n"
    rung = full_run(tmp_path, {**INI, "test_x.py": text}, late="test_hangs")
    assert (rung.state, rung.reason) == (RungState.FAIL, "timed_out")
    assert "test_x.py::test_hangs" in rung.summary
    assert rung.tests is not None
    assert rung.tests.passed == 1


def test_a_test_that_never_ended_before_either_is_inconclusive(tmp_path: Path) -> None:
    hang = "import time\ndef test_hangs(): time.sleep(600)\n"
    now = write(tmp_path / "now", {**INI, "app.py": "x = 2\n", "test_x.py": "import app\n" + hang})
    base = write(tmp_path / "base", {**INI, "app.py": "x = 1\n", "test_x.py": "import app\n" + hang})
    rung, _ = drive(scoped(context_of(now, base), Memo()), now, base, late="test_hangs")
    assert (rung.state, rung.reason) == (RungState.INCONCLUSIVE, "timed_out")


APP = {
    **INI,
    "shop/__init__.py": "",
    "shop/price.py": "def price(): return 10\n",
    "shop/stock.py": "def stock(): return 5\n",
    "tests/test_price.py": "from shop.price import price\ndef test_price(): assert price() == 10\n",
    "tests/test_stock.py": "from shop.stock import stock\ndef test_stock(): assert stock() == 5\ndef test_old(): assert 0\n",
    "tests/conftest.py": "import sys, os\nsys.path.insert(0, os.getcwd())\n",
}


def test_only_what_the_change_reaches_is_run(tmp_path: Path) -> None:
    rung, _ = scoped_run(tmp_path, APP, {**APP, "shop/price.py": "def price(): return 11\n"})
    assert (rung.state, rung.summary) == (RungState.FAIL, "1 of 2 test files, 1 failed")
    assert rung.tests is not None
    assert [case.nodeid for case in rung.tests.failing] == ["tests/test_price.py::test_price"]
    assert rung.tests.failing[0].failure_class is FailureClass.NEW
    assert rung.covered not in ("", "full")
    assert rung.next is None


def test_what_failed_before_is_known_and_no_reason_to_stop(tmp_path: Path) -> None:
    rung, _ = scoped_run(tmp_path, APP, {**APP, "shop/stock.py": "def stock(): return 4 + 1\n"})
    assert rung.state is RungState.PASS
    assert rung.known_failures == ("tests/test_stock.py::test_old",)
    assert rung.summary == "1 of 2 test files, 1 passed, 1 failed, 1 known failure"


def test_known_failures_are_red_where_all_must_pass(tmp_path: Path) -> None:
    now = {**APP, "shop/stock.py": "def stock(): return 4 + 1\n"}
    rung, _ = scoped_run(tmp_path, APP, now, policy=VerifyPolicy.STRICT)
    assert rung.state is RungState.FAIL
    assert rung.known_failures == ("tests/test_stock.py::test_old",)


def test_a_failure_recorded_on_the_base_needs_no_second_run(tmp_path: Path) -> None:
    now = write(tmp_path / "now", {**APP, "shop/stock.py": "def stock(): return 4 + 1\n"})
    base = write(tmp_path / "base", APP)
    known = frozenset({"tests/test_stock.py::test_old"})
    rung, outputs = drive(scoped(replace(context_of(now, base), known_failures=known), Memo()), now, base)
    assert (rung.state, len(outputs)) == (RungState.PASS, 1)


def test_a_renamed_test_file_is_compared_with_its_former_self(tmp_path: Path) -> None:
    now = {path.replace("test_stock", "test_stocks"): text for path, text in APP.items()}
    rung, _ = scoped_run(tmp_path, APP, now)
    assert rung.state is RungState.PASS
    assert rung.known_failures == ("tests/test_stocks.py::test_old",)


def test_a_new_test_that_fails_is_new(tmp_path: Path) -> None:
    rung, _ = scoped_run(tmp_path, APP, {**APP, "tests/test_new.py": "def test_new(): assert 0\n"})
    assert (rung.state, rung.summary) == (RungState.FAIL, "1 of 3 test files, 1 failed")


def test_nothing_reached_is_no_pass(tmp_path: Path) -> None:
    now = {**APP, "shop/unused.py": "x = 1\n"}
    rung, _ = scoped_run(tmp_path, APP, now, policy=VerifyPolicy.STRICT)
    assert (rung.state, rung.reason) == (RungState.INCONCLUSIVE, "no_covering_test")
    assert rung.summary == "none of 2 test files is reached by the change"


def test_a_deleted_module_fails_its_former_importers(tmp_path: Path) -> None:
    now = {path: text for path, text in APP.items() if path != "shop/price.py"}
    rung, _ = scoped_run(tmp_path, APP, now)
    assert (rung.state, rung.reason) == (RungState.FAIL, "collection_error")
    assert rung.diagnostics[0].path == "tests/test_price.py"


def test_a_refused_connection_without_a_base_is_not_red(tmp_path: Path) -> None:
    text = (
        "import socket\ndef test_net(): raise socket.gaierror(-3, 'Temporary failure in name resolution')\n"
    )
    root = write(tmp_path / "now", {**INI, "test_net.py": text})
    rung, _ = drive(full(context_of(root), Memo()), root)
    assert (rung.state, rung.reason) == (RungState.INCONCLUSIVE, "network_denied")
    assert rung.next is not None
    assert 'network = "host" in your own settings file' in rung.next
    opened, _ = drive(full(replace(context_of(root), network_open=True), Memo()), root)
    assert opened.state is RungState.FAIL


def test_a_refused_connection_on_the_base_too_is_known(tmp_path: Path) -> None:
    text = "import socket, shop\ndef test_net(): raise socket.gaierror(-3, 'Temporary failure in name resolution')\n"
    base = {**APP, "tests/test_net.py": text}
    rung, _ = scoped_run(tmp_path, base, {**base, "shop/__init__.py": "x = 1\n"})
    assert rung.state is RungState.PASS
    assert "tests/test_net.py::test_net" in rung.known_failures


def test_chosen_tests_are_run_alone(tmp_path: Path) -> None:
    root = write(tmp_path / "now", APP)
    context = replace(context_of(root), nodeids=("tests/test_stock.py::test_stock",))
    rung, _ = drive(scoped(context, Memo()), root)
    assert rung.state is RungState.PASS
    assert rung.tests is not None
    assert (rung.tests.total, rung.tests.selection) == (1, Selection.EXPLICIT)
    missing, _ = drive(scoped(replace(context, nodeids=("tests/test_stock.py::test_gone",)), Memo()), root)
    assert (missing.state, missing.reason) == (RungState.INCONCLUSIVE, "unknown_test")
    assert missing.summary == "not found: tests/test_stock.py::test_gone"
    step = "name the test as pytest does, path::name, or run its file: glideslope test tests/test_stock.py"
    assert missing.next == step
    none, _ = drive(scoped(replace(context, nodeids=("shop/__init__.py",)), Memo()), root)
    assert (none.state, none.reason) == (RungState.INCONCLUSIVE, "no_tests")
    assert none.next is not None
    assert none.next.startswith("name the test as pytest does, path::name")


def test_many_files_are_split_and_put_together_again(tmp_path: Path) -> None:
    many = {
        f"tests/test_{n:02}.py": f"import shop.price\ndef test_a(): assert {n} != 7\ndef test_b(): pass\n"
        for n in range(16)
    }
    base = write(tmp_path / "base", {**APP, **many})
    now = write(tmp_path / "now", {**APP, **many, "shop/price.py": "def price(): return 5 + 5\n"})
    rung, outputs = drive(scoped(context_of(now, base), Memo()), now, base)
    assert [len(output.command.stdin.split(b"\0")) - 1 for output in outputs] == [9, 8, 1]
    assert rung.tests is not None
    assert (rung.tests.total, rung.tests.passed, rung.tests.failed, rung.tests.selected) == (33, 32, 1, 17)
    assert rung.known_failures == ("tests/test_07.py::test_a",)


def test_a_project_in_a_folder_names_paths_from_the_workspace(tmp_path: Path) -> None:
    root = write(
        tmp_path / "now",
        {"packages/a b/pyproject.toml": "", "packages/a b/tests/test_ü.py": "def test_no(): assert 0\n"},
    )
    rung, _ = drive(scoped(context_of(root, project="packages/a b"), Memo()), root)
    assert rung.tests is not None
    (case,) = rung.tests.failing
    assert (case.nodeid, case.path) == ("tests/test_ü.py::test_no", "packages/a b/tests/test_ü.py")


UNITTEST = {
    "app.py": "def two(): return 2\n",
    "tests/__init__.py": "",
    "tests/test_app.py": "import unittest, app\nclass T(unittest.TestCase):\n    def test_two(self): self.assertEqual(app.two(), 2)\n",
    "tests/test_other.py": "import unittest\nclass T(unittest.TestCase):\n    def test_no(self): self.fail('x')\n    @unittest.skip('s')\n    def test_s(self): pass\n",
}


def without_pytest(context: Context) -> Context:
    return replace(context, interpreter=interpreter(without=("pytest",)))


def test_unittest_suites_run_without_pytest(tmp_path: Path) -> None:
    root = write(tmp_path / "now", UNITTEST)
    rung, _ = drive(full(without_pytest(context_of(root)), Memo()), root)
    assert (rung.state, rung.summary) == (RungState.FAIL, "1 passed, 1 failed, 1 skipped")
    assert rung.tests is not None
    assert rung.tests.failing[0].path == "tests/test_other.py"
    assert rung.tests.failing[0].line == 3


def test_unittest_files_are_selected_and_compared_too(tmp_path: Path) -> None:
    now = write(tmp_path / "now", {**UNITTEST, "app.py": "def two(): return 3\n"})
    base = write(tmp_path / "base", UNITTEST)
    rung, _ = drive(scoped(without_pytest(context_of(now, base)), Memo()), now, base)
    assert (rung.state, rung.summary) == (RungState.FAIL, "1 of 2 test files, 1 failed")
    base_of_other = write(
        tmp_path / "other", {**UNITTEST, "tests/test_other.py": UNITTEST["tests/test_other.py"] + "\n"}
    )
    same, _ = drive(scoped(without_pytest(context_of(base, base_of_other)), Memo()), base, base_of_other)
    assert same.state is RungState.PASS
    assert same.known_failures == ("tests.test_other.T.test_no",)


def test_pytest_suites_without_pytest_are_inconclusive(tmp_path: Path) -> None:
    root = write(tmp_path / "now", {"tests/test_app.py": "def test_two(): pass\n"})
    context = without_pytest(context_of(root))
    context = replace(context, interpreter=replace(context.interpreter, executable="/my env/bin/python"))
    rung, _ = drive(full(context, Memo()), root)
    assert (rung.state, rung.reason) == (RungState.INCONCLUSIVE, "tool_missing")
    assert rung.next == "'/my env/bin/python' -m pip install pytest"


CHECKS = """
import pytest
def pytest_collect_file(parent, file_path):
    if file_path.suffix == ".check":
        return Checks.from_parent(parent, path=file_path)
class Checks(pytest.File):
    def collect(self):
        yield Check.from_parent(self, name="check")
class Check(pytest.Item):
    def runtest(self):
        assert "bad" not in self.path.read_text()
"""


def test_what_a_conftest_collects_from_other_files_runs_with_any_selection(tmp_path: Path) -> None:
    base = {
        **INI,
        "conftest.py": CHECKS,
        "a.py": "A = 1\n",
        "test_a.py": "import a\ndef test_a(): pass\n",
        "test_b.py": "def test_b(): pass\n",
        "one.check": "good",
    }
    rung, _ = scoped_run(tmp_path, base, {**base, "a.py": "A = 2\n"})
    assert (rung.state, rung.summary) == (RungState.PASS, "1 of 2 test files, 2 passed")


def test_test_files_of_a_project_inside_run_only_where_they_are_reached(tmp_path: Path) -> None:
    inner = {
        "inner/pyproject.toml": "[project]\nname = 'i'\nversion = '1'\n",
        "inner/test_i.py": "def test_i(): pass\n",
    }
    base = {
        "pyproject.toml": "[project]\nname = 'o'\nversion = '1'\n",
        "a.py": "A = 1\n",
        "test_a.py": "import a\ndef test_a(): pass\n",
        **inner,
    }
    both = tuple(
        Project(name=name, root=root, toolchain="python") for name, root in ((".", ""), ("inner", "inner"))
    )
    rung, _ = scoped_run(tmp_path, base, {**base, "a.py": "A = 2\n"}, projects=both, project=both[0])
    assert (rung.state, rung.summary) == (RungState.PASS, "1 of 2 test files, 1 passed")
