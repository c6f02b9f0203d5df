"""The variables of a task, and what a command may not be."""

from __future__ import annotations

import pytest

from glideslope.errors import InvalidInput
from glideslope.machines.substrate import plan_environment
from glideslope.model.ids import RunId
from glideslope.model.sandbox import ExecSpec, Substrate
from glideslope.model.settings import SandboxProfile
from glideslope.ports.environment import ExecWatch

OUTER = {
    "PATH": "/opt/tools:relative:.::/usr/bin",
    "HOME": "/home/someone",
    "LC_NUMERIC": "de_DE.UTF-8",
    "TZ": "Europe/Berlin",
    "CI": "1",
    "SECRET_TOKEN": "hush",
    "PYTHONPATH": "/elsewhere",
    "GIT_DIR": "/other/.git",
    "GLIDESLOPE_STATE": "/state",
}


def plan(profile: SandboxProfile = SandboxProfile.AGENT_EPHEMERAL, **fields: object) -> dict[str, str]:
    return dict(plan_environment(profile, OUTER, run=RunId("r1"), **fields))  # type: ignore[arg-type]


def test_only_allowed_variables_reach_an_agents_task() -> None:
    planned = plan()
    assert not {"SECRET_TOKEN", "CI", "PYTHONPATH", "GIT_DIR", "GLIDESLOPE_STATE"} & planned.keys()
    assert (planned["LC_NUMERIC"], planned["TZ"], planned["LANG"]) == (
        "de_DE.UTF-8",
        "Europe/Berlin",
        "C.UTF-8",
    )


def test_an_operators_task_has_the_operators_variables_but_git_s_and_ours() -> None:
    planned = plan(SandboxProfile.OPERATOR)
    assert planned["SECRET_TOKEN"] == "hush"
    assert planned["HOME"] == "/home/someone"
    assert planned["TMPDIR"] == "/tmp"
    assert not {"GIT_DIR", "GLIDESLOPE_STATE"} & planned.keys()


@pytest.mark.parametrize("profile", [SandboxProfile.AGENT_EPHEMERAL, SandboxProfile.OPERATOR])
def test_every_task_is_marked_and_never_asks(profile: SandboxProfile) -> None:
    planned = plan(profile)
    assert planned["GLIDESLOPE_RUN_ID"] == "r1"
    assert (planned["GIT_TERMINAL_PROMPT"], planned["PAGER"], planned["TERM"]) == ("0", "cat", "dumb")


def test_the_interpreters_folder_comes_first_and_relative_folders_never() -> None:
    assert plan(interpreter_folder="/venv/bin")["PATH"] == "/venv/bin:/opt/tools:/usr/bin"
    assert plan(interpreter_folder="/usr/bin")["PATH"] == "/usr/bin:/opt/tools"


def test_the_private_folders_are_the_given_ones() -> None:
    planned = plan(substrate=Substrate(temporary="/s/tmp", home="/s/home", data="/s/data"))
    assert (planned["TMPDIR"], planned["HOME"], planned["XDG_CACHE_HOME"]) == (
        "/s/tmp",
        "/s/home",
        "/s/home/.cache",
    )


def test_the_commands_own_variables_win() -> None:
    assert plan(extra={"TERM": "xterm"})["TERM"] == "xterm"


@pytest.mark.parametrize(
    "fields",
    [
        {"argv": ()},
        {"argv": ("",)},
        {"argv": ("true",), "cwd": "/etc"},
        {"argv": ("true",), "cwd": "a/../.."},
        {"argv": ("tr\0ue",)},
        {"argv": ("true",), "env": {"A": "\0"}},
    ],
)
def test_a_command_that_makes_no_sense_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        ExecSpec(**fields)  # type: ignore[arg-type]


def test_a_cancel_reaches_the_exec_whether_it_comes_before_or_after_the_start() -> None:
    heard: list[str] = []
    early, late = ExecWatch(), ExecWatch()
    early.cancel("early")
    early.bind(heard.append)
    late.bind(heard.append)
    late.cancel("late")
    late.cancel("once more")
    assert heard == ["early", "late"]
