"""Whatever is wrong with a project, each fault gives a clear result of the right kind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.desk import PROJECT, QUIET, TINY, Desk, Repo, a_desk

from glideslope.surfaces.wire.text import text_path
from glideslope.testing.census import marked_processes

pytestmark = pytest.mark.process


def settings(**values: object) -> str:
    """A `glideslope.toml` with keys of `[agent.environment]`."""
    return "[agent.environment]\n" + "".join(f"{name} = {value!r}\n" for name, value in values.items())


# Where there is nothing to verify


def test_a_folder_that_is_neither_repository_nor_project_is_a_request_error(folder: Repo) -> None:
    answer = folder.verify()

    assert answer.exit_code == 2
    assert answer.error["code"] == "no_workspace"
    assert answer.error["kind"] == "request_error"
    assert "--repo" in answer.error["message"]


def test_a_project_without_tests_is_inconclusive_and_says_that_it_has_none(folder: Repo) -> None:
    folder.commit({"pyproject.toml": PROJECT, "tiny.py": TINY["tiny.py"]})

    answer = folder.verify("strict").expect("inconclusive")

    assert answer.rung("test.scoped")["state"] == "inconclusive"
    assert answer.rung("test.scoped")["reason_code"] == "no_tests"
    assert "no tests" in answer.rung("test.scoped")["summary"]


def test_without_an_interpreter_the_places_are_listed_and_the_way_out_is_named(repo: Repo) -> None:
    answer = repo.call("verify")

    assert answer.exit_code == 2
    assert answer.error["code"] == "no_interpreter"
    assert str(repo.root / ".venv") in answer.error["message"]
    assert str(repo.root / "venv") in answer.error["message"]
    assert "--python" in answer.error["message"]
    assert "venv" in answer.error["next"]


def test_an_interpreter_that_does_not_exist_is_a_request_error_that_names_it(repo: Repo) -> None:
    answer = repo.call("verify", "--python", "/nowhere/python")

    assert answer.exit_code == 2
    assert answer.error["code"] == "no_interpreter"
    assert "/nowhere/python" in answer.error["message"]


# Faults of the project


def test_a_project_that_does_not_import_is_red_with_file_and_line(repo: Repo) -> None:
    repo.commit(
        {"tiny.py": "VALUE = 1\n\nraise RuntimeError('not today')\n\n\ndef double(x):\n    return x\n"}
    )

    answer = repo.verify().expect("red")

    rung = answer.rung("test.scoped")
    assert (rung["state"], rung["reason_code"]) == ("fail", "collection_error")
    assert "not today" in rung["summary"]
    found = answer.blocking("test.scoped")[0]
    assert (found["path"], found["line"]) == ("tiny.py", 3)
    assert rung["next"] == "glideslope verify --base HEAD~1  # to see whether it failed before"


def test_a_new_import_of_nothing_is_red_before_any_test_runs(repo: Repo) -> None:
    repo.verify().expect("green")
    repo.write({"tiny.py": "import no_such_module_anywhere\n" + TINY["tiny.py"]})

    answer = repo.verify().expect("red")

    assert "test.scoped" not in [name for name, state in answer.states().items() if state != "pending"]
    rung = next(rung for rung in answer.data["rungs"] if rung["state"] == "fail")
    found = next(found for found in rung["diagnostics"] if found["blocking"])
    assert (found["path"], found["line"]) == ("tiny.py", 1)
    assert "no_such_module_anywhere" in found["message"]


def test_a_conftest_that_raises_is_a_fault_of_configuration_with_file_and_line(repo: Repo) -> None:
    repo.commit({"conftest.py": "import os\n\nraise ValueError('broken conftest')\n"})

    answer = repo.verify().expect("red")

    rung = answer.rung("test.scoped")
    assert (rung["state"], rung["reason_code"]) == ("fail", "config_error")
    assert "broken conftest" in rung["summary"]
    found = answer.blocking("test.scoped")[0]
    assert (found["path"], found["line"]) == ("conftest.py", 3)


def test_a_broken_pyproject_is_a_finding_with_line_and_column(repo: Repo) -> None:
    repo.commit({"pyproject.toml": PROJECT + "\n[tool.other\n"})

    answer = repo.verify().expect("red")

    rung = answer.rung("diagnose.files")
    assert (rung["state"], rung["reason_code"]) == ("fail", "config_error")
    found = answer.blocking("diagnose.files")[0]
    line = PROJECT.count("\n") + 2
    assert (found["path"], found["line"]) == ("pyproject.toml", line)
    assert found["column"] == len("[tool.other") + 1
    assert answer.data["max_rung_reached"] == "diagnose.files"


def test_a_syntax_error_is_red_at_the_first_rung_even_without_a_base(repo: Repo) -> None:
    repo.commit({"tiny.py": "def double(x:\n    return x\n"})

    answer = repo.verify().expect("red")

    assert answer.states()["diagnose.files"] == "fail"
    found = answer.blocking("diagnose.files")[0]
    assert (found["path"], found["line"]) == ("tiny.py", 1)


def test_a_test_that_never_ends_is_red_at_the_wall_limit_and_named(repo: Repo) -> None:
    repo.commit(
        {
            "glideslope.toml": settings(task_timeout_s=2),
            "test_loop.py": "def test_loop():\n    while True:\n        print(1)\n",
        }
    )

    answer = repo.verify().expect("red")

    rung = answer.rung("test.scoped")
    assert (rung["state"], rung["reason_code"]) == ("fail", "timed_out")
    assert "test_loop.py::test_loop" in rung["summary"]
    assert answer.failing("test.scoped") == {"test_loop.py::test_loop": "new"}
    assert task_endings(repo.desk, answer.data["run_id"])[-1] == "timed_out"
    assert not marked_processes([f"GLIDESLOPE_RUN_ID={answer.data['run_id']}".encode()])


def test_a_test_that_says_nothing_is_red_at_the_idle_limit_and_named(repo: Repo) -> None:
    repo.commit(
        {
            "glideslope.toml": settings(task_idle_s=2),
            "test_idle.py": "import time\n\n\ndef test_idle():\n    time.sleep(600)\n",
        }
    )

    answer = repo.verify().expect("red")

    rung = answer.rung("test.scoped")
    assert (rung["state"], rung["reason_code"]) == ("fail", "timed_out")
    assert "printed nothing" in rung["summary"]
    assert "test_idle.py::test_idle" in rung["summary"]


def test_a_test_that_never_ends_on_the_base_either_proves_nothing(repo: Repo) -> None:
    repo.commit(
        {
            "glideslope.toml": settings(task_timeout_s=2),
            "test_loop.py": "import tiny\n\n\ndef test_loop():\n    while tiny:\n        pass\n",
        }
    )
    repo.write({"tiny.py": TINY["tiny.py"].replace("x * 2", "2 * x")})

    answer = repo.verify("--base", "HEAD").expect("inconclusive")

    rung = answer.rung("test.scoped")
    assert (rung["state"], rung["reason_code"]) == ("inconclusive", "timed_out")
    assert "on the base" in rung["summary"]


def task_endings(desk: Desk, run_id: str) -> list[str]:
    """How the tasks of a run ended, in order."""
    ends = ("AgentEnvironmentTaskCompleted", "AgentEnvironmentTaskDied")
    return [
        event.get("state", "died")
        for event in desk.events()
        if event.get("run_id") == run_id and event["type"] in ends
    ]


FLOOD = """import sys


def test_flood():
    line = "x" * 1023 + "\\n"
    for _ in range({kilobytes}):
        sys.stdout.write(line)
    assert {ok}
"""


def memory_peak_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel does not tell the peak")


def flood(repo: Repo, megabytes: int, *, captured: bool, ok: bool) -> None:
    """A test prints so much; the daemon must hardly notice, and the stored log is bounded."""
    options = QUIET if captured else f"{QUIET} -s"
    repo.commit({"pyproject.toml": PROJECT.replace(QUIET, options)}).verify("minimal").expect("green")
    pid = repo.call("status").data["daemon"]["pid"]
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak starts again at what is held now
    before = memory_peak_bytes(pid)
    repo.write({"test_tiny.py": FLOOD.format(kilobytes=megabytes * 1024, ok=ok)})

    answer = repo.verify().expect("green" if ok else "red")

    assert memory_peak_bytes(pid) - before < 32 * 1024 * 1024
    page = repo.call("log", answer.rung("test.scoped")["log_ref"], "--tail", "3").data
    assert page["total_bytes"] <= 32 * 1024 * 1024
    if not ok:
        assert list(answer.failing("test.scoped")) == ["test_tiny.py::test_flood"]


def test_a_test_that_prints_50_megabytes_is_bounded(repo: Repo) -> None:
    flood(repo, 50, captured=True, ok=False)


@pytest.mark.long
@pytest.mark.parametrize("ok", [True, False], ids=["passing", "failing"])
@pytest.mark.parametrize("captured", [False, True], ids=["straight", "captured"])
def test_a_test_that_prints_500_megabytes_is_bounded(repo: Repo, captured: bool, ok: bool) -> None:
    flood(repo, 500, captured=captured, ok=ok)


def test_a_test_that_ends_the_process_with_success_has_died_not_passed(repo: Repo) -> None:
    repo.commit({"test_exit.py": "import os\n\n\ndef test_exit():\n    os._exit(0)\n"})

    answer = repo.verify().expect("died")

    rung = answer.rung("test.scoped")
    assert (rung["state"], rung["reason_code"]) == ("died", "exit")
    assert "test_exit.py::test_exit" in rung["summary"]
    assert "status 0" in rung["summary"]


NETWORK = """import socket

import tiny


def test_network():
    assert tiny.double(1) == 2
    socket.create_connection(("192.0.2.1", 80), timeout=5)
"""


def test_a_test_that_wants_the_network_is_inconclusive_without_a_base(repo: Repo) -> None:
    repo.commit({"test_network.py": NETWORK})

    answer = repo.verify().expect("inconclusive")

    rung = answer.rung("test.scoped")
    assert (rung["state"], rung["reason_code"]) == ("inconclusive", "network_denied")
    assert "--base" in rung["next"] and "network" in rung["next"]


def test_a_test_that_wants_the_network_is_known_once_there_is_a_base(repo: Repo) -> None:
    repo.commit({"test_network.py": NETWORK})
    repo.write({"tiny.py": TINY["tiny.py"].replace("x * 2", "2 * x")})

    answer = repo.verify("--base", "HEAD").expect("green")

    assert answer.failing("test.scoped") == {"test_network.py::test_network": "known"}


# What the caller got wrong


@pytest.mark.parametrize(
    "arguments", [("thorough",), ("--policy", "thorough"), ("STANDARD",), ("--policy", "")]
)
def test_an_unknown_policy_is_an_error_and_never_a_default(repo: Repo, arguments: tuple[str, ...]) -> None:
    answer = repo.verify(*arguments)

    assert answer.exit_code == 2
    assert answer.error["kind"] == "request_error"
    for name in ("minimal", "standard", "strict", "ci_parity"):
        assert name in answer.error["message"]
    assert repo.call("runs").data["runs"] == []


def test_an_unknown_policy_in_the_settings_is_an_error_and_never_a_default(repo: Repo) -> None:
    repo.write({"glideslope.toml": settings(default_verify_policy="thorough")})

    answer = repo.verify()

    assert answer.exit_code == 2
    assert "default_verify_policy" in answer.error["message"]
    assert "ci_parity" in answer.error["message"]


def test_an_unknown_setting_is_an_error_that_suggests_the_right_one(repo: Repo) -> None:
    repo.write({"glideslope.toml": settings(task_timeout=3)})

    answer = repo.verify()

    assert answer.exit_code == 2
    assert answer.error["kind"] == "request_error"
    assert "task_timeout" in answer.error["message"]
    assert "task_timeout_s" in answer.error["message"]
    assert "glideslope.toml" in answer.error["message"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", "--rung", "test.everything"),
        ("verify", "--base", "no-such-revision"),
        ("verify", "--project", "no-such-project"),
        ("verify", "--sandbox", "no-such-profile"),
        ("verify", "--timeout", "-1"),
        ("verify", "--no-such-option"),
        ("run", "no-such-run"),
        ("log", "no-such-log"),
        ("cancel", "no-such-run"),
        ("no-such-command",),
        ("last",),
    ],
    ids=" ".join,
)
def test_a_wrong_argument_is_a_request_error_with_a_next_step(repo: Repo, arguments: tuple[str, ...]) -> None:
    answer = repo.call(*(repo.named(*arguments) if arguments[0] == "verify" else arguments))

    assert answer.exit_code == 2
    assert answer.error["kind"] == "request_error"
    assert answer.error["next"] or ": " in answer.error["message"]


@pytest.mark.parametrize("profile", ["agent_worktree", "read_only"])
def test_a_profile_that_nothing_enforces_yet_is_refused_with_its_reason(repo: Repo, profile: str) -> None:
    answer = repo.verify("--sandbox", profile)

    assert answer.exit_code == 3
    assert answer.error["kind"] == "refused"
    assert profile in answer.error["message"]


# Odd places

POWERLESS = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
for power in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    libc.prctl(24, power, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def powerless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A desk that cannot read what is not its own, not even as root."""
    with a_desk(tmp_path_factory.mktemp("powerless"), through=(sys.executable, "-c", POWERLESS)) as made:
        yield made


def test_unicode_and_spaces_in_every_path_are_no_trouble(desk: Desk, tmp_path: Path) -> None:
    root = tmp_path / "mein Projekt ☂" / "größe \\ 'x' \"y\""
    root.mkdir(parents=True)
    repo = Repo(desk=desk, root=root).commit(
        {
            "pyproject.toml": PROJECT,
            "größe.py": "def double(x):\n    return x * 2\n",
            "tests für mich/test_größe.py": (
                "import os\nimport sys\n\n"
                "sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))\n"
                "import größe  # noqa: E402\n\n\n"
                "def test_größe():\n    assert größe.double(2) == 4\n"
            ),
        }
    )
    repo.verify().expect("green")
    repo.write({"größe.py": "def double(x):\n    return x * 3\n"})

    answer = repo.verify().expect("red")

    assert text_path(answer.data["scope"]) == str(root)
    assert answer.data["changed_paths"] == ["größe.py"]
    failing = answer.rung("test.scoped")["tests"]["failing"]
    assert [(test["path"], test["line"]) for test in failing] == [("tests für mich/test_größe.py", 9)]


def test_a_file_that_cannot_be_read_is_a_request_error_that_names_it(powerless: Desk, tmp_path: Path) -> None:
    repo = Repo(desk=powerless, root=tmp_path).commit(TINY).write({"secret.py": "x = 1\n"})
    (repo.root / "secret.py").chmod(0)

    answer = repo.verify()

    assert answer.exit_code == 2
    assert answer.error["code"] == "snapshot_unreadable"
    assert "secret.py" in answer.error["message"]


def test_a_repository_without_commits_is_verified_like_any_other(folder: Repo) -> None:
    folder.write(TINY)
    folder.git("init", "-q", "-b", "main")

    answer = folder.verify().expect("green")

    assert answer.data["git_head"] is None
    assert answer.data["base_reason"] == "none"
    assert answer.rung("test.scoped")["tests"]["passed"] == 1


# What the project's own options say


def test_options_of_plugins_that_are_not_installed_are_a_fault_of_configuration(repo: Repo) -> None:
    options = f"{QUIET} --cov=tiny --cov-fail-under=90 -n auto"
    repo.commit({"pyproject.toml": PROJECT.replace(QUIET, options)})

    answer = repo.verify().expect("red")

    rung = answer.rung("test.scoped")
    assert (rung["state"], rung["reason_code"]) == ("fail", "config_error")
    assert "--cov" in rung["summary"]
    assert answer.blocking("test.scoped")[0]["path"] == "pyproject.toml"


@pytest.fixture(scope="session")
def plugged_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter with pytest, pytest-cov and pytest-xdist, from the package index."""
    environment = tmp_path_factory.mktemp("plugged") / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = str(environment / "bin" / "python")
    pip = [python, "-m", "pip", "install", "-q", "pytest", "pytest-cov", "pytest-xdist"]
    subprocess.run(pip, check=True)
    return python


@pytest.mark.long
def test_coverage_limits_and_workers_hold_where_all_tests_run_and_only_there(
    repo: Repo, plugged_python: str
) -> None:
    options = "--cov=tiny --cov-fail-under=90 -n auto"
    configured = PROJECT.replace(QUIET, options)
    unused = "def unused(x):\n" + "".join(f"    x += {number}\n" for number in range(30)) + "    return x\n"
    repo.commit({"pyproject.toml": configured, "tiny.py": TINY["tiny.py"] + "\n\n" + unused})

    scoped = repo.call("verify", "--python", plugged_python).expect("green")
    full = repo.call("verify", "ci", "--python", plugged_python).expect("red")
    repo.write({"tiny.py": TINY["tiny.py"]})
    covered = repo.call("verify", "ci", "--python", plugged_python).expect("green")

    assert "without" in scoped.rung("test.scoped")["summary"]
    assert scoped.rung("test.scoped")["tests"]["passed"] == 1
    rung = full.rung("test.full")
    assert (rung["state"], rung["reason_code"]) == ("fail", "coverage")
    assert "90" in rung["summary"]
    assert rung["tests"]["passed"] == covered.rung("test.full")["tests"]["passed"] == 1
