"""Commands that start runs: what they ask, what they show, how they exit."""

from __future__ import annotations

import io
import os
import re
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from glideslope.engine.actions import (
    Cancel,
    Cancelled,
    Diagnose,
    GetRun,
    GetStatus,
    Last,
    RunView,
    Started,
    Status,
    Test,
    Verify,
)
from glideslope.errors import HostUnavailable, InternalError, ProfileRefused
from glideslope.machines.card import ASCII, view_epoch, view_status
from glideslope.model.event import AgentRunStarted, AgentVerifyEpochStale
from glideslope.model.result import CancelReason, RungResult, RungState, StaleReason, Verdict
from glideslope.model.run import Run, Staleness
from glideslope.model.rung import Rung, VerifyPolicy
from glideslope.model.settings import SandboxProfile
from glideslope.surfaces.cli import follow
from glideslope.surfaces.cli.entry import run as run_cli
from glideslope.testing.sample import RUN_ID, SNAPSHOT, green_run, red_run
from glideslope.testing.scripted_engine import ScriptedEngine, completed

Cli = Any  # the fixture of conftest


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize("command", ["verify", "diagnose", "test"])
def test_commands_that_run_exit_by_verdict(
    cli: Cli, engine: ScriptedEngine, verdict: Verdict, command: str
) -> None:
    engine.serve_run(green_run(verdict=verdict, action=command))
    shown = cli(command, "--json")
    assert shown.code == verdict.exit_code
    assert shown.json["ok"] is True
    assert shown.json["action"] == command
    assert shown.json["data"]["verdict"] == verdict.value


def test_a_green_that_is_not_current_any_more_exits_as_stale(cli: Cli, engine: ScriptedEngine) -> None:
    engine.serve_run(green_run(), current=False)
    shown = cli("verify", "--json")
    assert shown.code == 4
    assert (shown.json["data"]["verdict"], shown.json["data"]["current"]) == ("green", False)
    engine.serve_run(red_run(), current=False)
    assert cli("verify").code == 1  # it was found, whatever came after


def test_warnings_about_the_settings_are_noted(cli: Cli, engine: ScriptedEngine) -> None:
    engine.serve_run(green_run(scope=os.getcwd()))
    Path("glideslope.toml").write_text('[agent.environment]\nnetwork = "host"\nladder.l0_enabled = true\n')
    shown = cli("verify", "--json")
    assert shown.json["ok"]
    assert [line.split(":")[0] for line in shown.err.splitlines()] == ["warning", "warning"]


def test_verify_prints_the_verify_epoch_block_and_nothing_else(cli: Cli, engine: ScriptedEngine) -> None:
    engine.serve_run(green_run())
    shown = cli("verify")
    assert shown.code == 0
    assert shown.out == "\n".join(view_epoch(green_run())) + "\n"
    assert shown.err == ""
    assert shown.out.startswith(
        "Verify · standard · epoch 3f9a\nsnapshot s1-90ab12cd34ef5a6b · 1c2d3e4 · 3 files dirty\n"
    )


def test_where_the_time_went_is_shown_unless_the_settings_say_otherwise(
    cli: Cli, engine: ScriptedEngine
) -> None:
    engine.serve_run(green_run(scope=os.getcwd()))
    Path("glideslope.toml").write_text("[agent.environment.time_accounting]\nshow_in_chat = false\n")
    block = cli("verify").out.splitlines()
    assert block == [line for line in view_epoch(green_run()) if not line.startswith("Reasoning")]


def test_quiet_prints_the_verdict_line_only(cli: Cli, engine: ScriptedEngine) -> None:
    engine.serve_run(red_run())
    shown = cli("verify", "--quiet")
    assert shown.code == 1
    assert shown.out == view_status(red_run()) + "\n"


@pytest.mark.parametrize("how", ["--plain", "NO_COLOR", "TERM"])
def test_ascii_is_shown_where_it_is_asked_for(cli: Cli, engine: ScriptedEngine, how: str) -> None:
    engine.serve_run(red_run())
    environ = {"NO_COLOR": {"NO_COLOR": "1"}, "TERM": {"TERM": "dumb"}}.get(how, {})
    shown = cli("verify", *(["--plain"] if how == "--plain" else []), environ=environ)
    assert shown.out.isascii()
    assert shown.out == "\n".join(view_epoch(red_run(), glyphs=ASCII)) + "\n"


def test_ascii_is_shown_where_the_terminal_shows_no_more(cli: Cli, engine: ScriptedEngine) -> None:
    cli.encoding = "ascii"
    engine.serve_run(green_run(note="caf\udce9 – \u2713"))
    assert "x" not in cli("verify").out.splitlines()[0]
    shown = cli("verify", "--json")  # JSON is UTF-8 all the same
    assert shown.json["data"]["note"] == "caf\\xe9 – \u2713"


def test_every_option_of_verify_reaches_the_engine(cli: Cli, engine: ScriptedEngine) -> None:
    engine.serve_run(green_run())
    arguments = [
        "verify",
        "ci",
        "--rung",
        "test.full",
        "--base",
        "HEAD~1",
        "--paths",
        "src/a.py",
        "--paths",
        "./b.py",
        "--project",
        "p",
        "--sandbox",
        "operator",
        "--python",
        "/py",
        "--timeout",
        "2.5",
        "--no-cache",
        "--tie",
        "--explain",
    ]
    shown = cli(*arguments, environ={"VIRTUAL_ENV": "/venv", "GLIDESLOPE__X": "1", "SECRET": "s"})
    assert shown.code == 0, shown.err
    [(action, tied)] = [(found, tied) for found, tied in engine.asked if isinstance(found, Verify)]
    assert tied
    assert action.caller.folder == os.getcwd()
    assert not action.caller.explicit_folder
    assert action.caller.virtual_env == "/venv"
    assert dict(action.caller.variables)["SECRET"] == "s"  # the operator's own profile
    caller = action.caller
    assert action == Verify(
        caller=caller,
        policy=VerifyPolicy.CI_PARITY,
        rung=Rung.FULL,
        base="HEAD~1",
        paths=("b.py", "src/a.py"),
        project="p",
        sandbox=SandboxProfile.OPERATOR,
        python="/py",
        timeout_s=2.5,
        no_cache=True,
    )
    assert "Change against s1-00000000000000ba (last green):" in shown.out
    assert "test.scoped: pass, 2 of 40 test files (static)" in shown.out


def test_only_our_own_variables_are_sent_where_tasks_are_not_the_operators(
    cli: Cli, engine: ScriptedEngine
) -> None:
    engine.serve_run(green_run())
    cli("verify", environ={"GLIDESLOPE__A": "1", "SECRET": "s"})
    assert engine.actions(Verify)[0].caller.variables == (("GLIDESLOPE__A", "1"),)
    folder = cli.home / "config" / "glideslope"
    folder.mkdir(parents=True)
    (folder / "settings.toml").write_text('[agent.environment]\ndefault_sandbox_profile = "operator"\n')
    cli("verify", environ={"SECRET": "s"})
    assert ("SECRET", "s") in engine.actions(Verify)[1].caller.variables
    cli("verify", "--sandbox", "agent_ephemeral", environ={"SECRET": "s"})
    assert ("SECRET", "s") not in engine.actions(Verify)[2].caller.variables


def test_repo_names_the_folder(cli: Cli, engine: ScriptedEngine, tmp_path: Path) -> None:
    engine.serve_run(green_run())
    other = tmp_path / "other"
    other.mkdir()
    (other / "setup.py").touch()
    cli("verify", "--repo", "../other", "--paths", "../other/a.py")
    [action] = engine.actions(Verify)
    assert action.caller.folder == str(other)
    assert action.caller.explicit_folder
    assert action.paths == ("a.py",)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["sub/x.py"], ("sub/x.py",)),
        (["../work space/y.py"], ("y.py",)),
        (["sub/../z.py", "z.py"], ("z.py",)),
        (["."], ()),
        (["link.py"], ("link.py",)),
        (["folder-link/x.py"], ("sub/x.py",)),
        ([], ()),
    ],
)
def test_paths_are_meant_from_the_current_folder(
    cli: Cli, engine: ScriptedEngine, typed: list[str], meant: tuple[str, ...]
) -> None:
    os.mkdir("sub")
    Path("sub/x.py").touch()
    os.symlink("/etc/hostname", "link.py")
    os.symlink("sub", "folder-link")
    engine.serve_run(green_run(action="diagnose"))
    assert cli("diagnose", *typed).code == 0
    assert engine.actions(Diagnose)[0].paths == meant


def test_paths_are_meant_from_a_folder_below_the_root(
    cli: Cli, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkdir("sub")
    monkeypatch.chdir("sub")
    engine.serve_run(green_run(action="test"))
    Path("test_a.py").touch()
    cli("test", "test_a.py::test_x[a/b]", "tests/test_b.py::test_y", "../test_c.py", "--rerun-failed")
    assert not engine.asked
    assert cli("test", "test_a.py::test_x[a/b]", "tests/test_b.py::test_y").code == 0
    assert engine.actions(Test)[0].nodeids == ("sub/test_a.py::test_x[a/b]", "tests/test_b.py::test_y")


def test_a_path_outside_is_a_request_error(cli: Cli, engine: ScriptedEngine) -> None:
    shown = cli("verify", "--json", "--paths", "../elsewhere.py")
    assert shown.code == 2
    assert shown.json["error"]["code"] == "path_escapes"
    assert not engine.asked


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["wild"], "unknown policy 'wild'"),
        (["strict", "--policy", "minimal"], "two policies"),
        (["--rung", "test.some"], "unknown rung 'test.some'"),
        (["--sandbox", "agent_ephemral"], "did you mean agent_ephemeral?"),
        (["--sandbox", "zzz"], "use one of operator"),
        (["--timeout", "0"], "0"),
        (["--timeout", "soon"], "soon"),
        (["--nonsense"], "--nonsense"),
        (["strict", "minimal"], "minimal"),
        (["--watch", "--no-wait"], "--watch waits"),
    ],
)
def test_a_word_that_is_wrong_is_an_error_and_never_a_default(
    cli: Cli, engine: ScriptedEngine, arguments: list[str], said: str
) -> None:
    engine.serve_run(green_run())
    text = cli("verify", *arguments)
    assert text.code == 2
    assert text.out == ""
    assert said in text.err
    assert text.err.startswith("glideslope: ")
    shown = cli("verify", "--json", *arguments)
    assert shown.code == 2
    assert shown.json["ok"] is False
    assert shown.json["error"]["kind"] == "request_error"
    assert said in shown.json["error"]["message"]
    assert not engine.asked


@pytest.mark.parametrize(
    ("old", "new"), [("L0", Rung.DIAGNOSE), ("test_filtered", Rung.SCOPED), ("integration", Rung.FULL)]
)
def test_an_old_name_of_a_rung_is_taken_with_a_warning(
    cli: Cli, engine: ScriptedEngine, old: str, new: Rung
) -> None:
    engine.serve_run(green_run())
    shown = cli("verify", "--rung", old)
    assert engine.actions(Verify)[0].rung is new
    assert f"warning: {old!r} is an old name, read until version 1.0: write {new.value}" in shown.err


def test_a_refused_profile_shows_its_reason_and_the_next_step(cli: Cli, engine: ScriptedEngine) -> None:
    engine.replies[Verify] = ProfileRefused("agent_worktree needs a worktree", next="glideslope verify")
    shown = cli("verify")
    assert shown.code == 3
    assert shown.err == "glideslope: agent_worktree needs a worktree\nnext: glideslope verify\n"
    error = cli("verify", "--json").json["error"]
    assert (error["code"], error["kind"], error["next"]) == (
        "profile_refused",
        "refused",
        "glideslope verify",
    )


def test_no_wait_answers_at_once_with_no_verdict(cli: Cli, engine: ScriptedEngine) -> None:
    engine.serve_run(green_run(verdict=None, ended_at=None, rungs=(), time=None))
    shown = cli("verify", "--no-wait", "--json")
    assert shown.code == 0
    assert shown.json["data"]["verdict"] is None
    assert shown.json["data"]["time_ms"]["wall"] is None


def test_ndjson_prints_the_events_of_the_run_and_the_envelope_last(cli: Cli, engine: ScriptedEngine) -> None:
    other = replace(green_run(), id="other")
    engine.publish(AgentRunStarted(run_id=other.id, run=other))
    engine.serve_run(green_run())
    *events, envelope = cli("verify", "--ndjson").lines
    assert [event["seq"] for event in events] == [2, 3, 4, 5, 6, 7]
    assert events[0]["type"] == "AgentRunStarted"
    assert events[-1]["type"] == "AgentRunCompleted"
    assert events[-1]["verdict"] == "green"
    assert envelope["data"]["verdict"] == "green"


def test_every_finding_is_shown_where_that_is_asked_for(cli: Cli, engine: ScriptedEngine) -> None:
    engine.serve_run(red_run())
    assert "(advisory)" not in cli("verify").out
    engine.replies[Last] = RunView(run=red_run(), current=True)
    for command in (["verify"], ["last"], ["run", RUN_ID]):
        assert "F401 `os` imported but unused (advisory)" in cli(*command, "--all").out


def test_what_a_run_never_came_to_is_explained_as_such(cli: Cli, engine: ScriptedEngine) -> None:
    pending = RungResult(rung=Rung.FULL, state=RungState.PENDING)
    engine.serve_run(replace(red_run(), rungs=(*red_run().rungs, pending)))
    assert "test.full: not reached" in cli("verify", "--explain").out.splitlines()


def test_diagnose_says_what_to_do_where_nothing_could_be_proved(cli: Cli, engine: ScriptedEngine) -> None:
    rung = RungResult(
        rung=Rung.DIAGNOSE, state=RungState.INCONCLUSIVE, reason="tool_missing", next="make it there"
    )
    engine.serve_run(green_run(action="diagnose", rungs=(rung,), verdict=Verdict.INCONCLUSIVE))
    assert "next: make it there" in cli("diagnose").err.splitlines()
    assert "diagnose.files: tool missing" in cli("diagnose", "--quiet").out


def test_diagnose_prints_findings_as_editors_read_them(cli: Cli, engine: ScriptedEngine) -> None:
    scope = os.getcwd()
    engine.serve_run(replace(red_run(), action="diagnose", scope=scope))
    shown = cli("diagnose")
    assert shown.out.splitlines() == [
        "pyproject.toml:1:1: error no such file (known)",
        "src/shop/cart.py:3:5: warning F401 `os` imported but unused (advisory)",
    ]
    assert shown.err.startswith("Status: red")
    assert cli("diagnose", "--quiet").out.startswith("Status: red")


def _signals_at(engine: ScriptedEngine, number: int, run: Run, *, times: int = 1) -> None:
    """The run goes on until it is cancelled; as soon as it is open, signals arrive."""

    def start(action: object) -> Started:
        engine.publish(AgentRunStarted(run_id=run.id, run=replace(run, verdict=None)))
        os.kill(os.getpid(), number)
        return Started(run_id=run.id, joined=False, seq=0)

    def cancel(action: Cancel) -> Cancelled:
        if times == 2:
            os.kill(os.getpid(), number)
        else:
            engine.publish(completed(run))
        return Cancelled(cancelled=(run.id,), survivors=0)

    engine.replies[Verify] = start
    engine.replies[Cancel] = cancel
    engine.replies[GetRun] = RunView(run=run, current=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_the_run_that_was_started_and_its_verdict_is_shown(
    cli: Cli, engine: ScriptedEngine, number: int
) -> None:
    run = green_run(verdict=Verdict.CANCELLED, cancelled=CancelReason.REQUESTED)
    _signals_at(engine, number, run)
    shown = cli("verify", "--json")
    assert shown.code == 6
    assert shown.json["data"]["verdict"] == "cancelled"
    assert shown.json["data"]["reason"] == "requested"
    assert [action.run_id for action in engine.actions(Cancel)] == [RUN_ID]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_before_the_run_has_a_name_cancels_it_once_it_has(
    cli: Cli, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = green_run(verdict=Verdict.CANCELLED, cancelled=CancelReason.REQUESTED)
    _signals_at(engine, signal.SIGINT, run)
    start, heard, stop = engine.replies[Verify], threading.Event(), follow._Follower._stop

    def stop_and_tell(follower: follow._Follower) -> None:
        stop(follower)
        heard.set()

    def start_late(action: Verify) -> Any:
        assert callable(start)
        started = start(action)
        assert heard.wait(60)
        return started

    monkeypatch.setattr(follow._Follower, "_stop", stop_and_tell)
    engine.replies[Verify] = start_late
    assert cli("verify", "--json").code == 6
    assert len(engine.actions(Cancel)) == 1


def test_a_second_signal_returns_at_once(cli: Cli, engine: ScriptedEngine) -> None:
    _signals_at(engine, signal.SIGINT, green_run(verdict=None), times=2)
    shown = cli("verify", "--json")
    assert shown.code == 6
    assert (shown.json["error"]["kind"], shown.json["error"]["code"]) == ("cancelled", "cancelled")
    assert len(engine.actions(Cancel)) == 1


def test_a_signal_leaves_a_run_of_others_going(cli: Cli, engine: ScriptedEngine) -> None:
    def start(action: object) -> Started:
        os.kill(os.getpid(), signal.SIGINT)
        return Started(run_id=RUN_ID, joined=True, seq=0)

    engine.replies[Verify] = start
    shown = cli("verify")
    assert shown.code == 6
    assert "goes on" in shown.err
    assert not engine.actions(Cancel)


def test_an_interrupt_anywhere_else_is_an_answer_too(cli: Cli, engine: ScriptedEngine) -> None:
    def interrupt(action: object) -> Status:
        raise KeyboardInterrupt

    engine.replies[GetStatus] = interrupt
    shown = cli("status", "--json")
    assert shown.code == 6
    assert shown.json["error"]["kind"] == "cancelled"


def test_a_stream_that_breaks_is_made_up_for_by_a_look_at_the_run(cli: Cli, engine: ScriptedEngine) -> None:
    engine.stream_ends_after = 2
    engine.serve_run(green_run(verdict=Verdict.DIED))
    assert cli("verify", "--json").code == 5
    engine.serve_run(green_run(verdict=None))
    shown = cli("verify", "--json")
    assert shown.code == 5
    assert shown.json["error"]["next"] == f"glideslope run {RUN_ID} --wait"


def test_an_engine_that_cannot_be_reached_is_infrastructure(cli: Cli, engine: ScriptedEngine) -> None:
    engine.replies[Verify] = HostUnavailable(
        "the daemon did not start: see its log", next="glideslope doctor"
    )
    shown = cli("verify", "--json")
    assert shown.code == 5
    assert shown.json["error"]["kind"] == "environment_broken"


@pytest.mark.parametrize("error", [ZeroDivisionError("one\ntwo"), InternalError("an invariant is false")])
def test_our_own_bug_is_one_line_and_a_reference_to_the_details(
    cli: Cli, engine: ScriptedEngine, error: Exception
) -> None:
    engine.replies[Verify] = error
    shown = cli("verify", "--json")
    assert shown.code == 70
    report = Path(shown.json["error"]["fields"]["log_ref"])
    assert type(error).__name__ in report.read_text()
    assert report.stat().st_mode & 0o077 == 0 or report.parent.stat().st_mode & 0o077 == 0
    text = cli("verify")
    assert text.code == 70
    assert len(text.err.splitlines()) == 2
    assert text.err.splitlines()[1].startswith("next: report this, with the file ")


def test_where_no_details_can_be_kept_they_are_printed(cli: Cli, engine: ScriptedEngine) -> None:
    engine.replies[Verify] = ZeroDivisionError("no")
    (cli.home / "file").touch()
    shown = cli("verify", environ={"GLIDESLOPE_STATE_DIR": str(cli.home / "file")})
    assert shown.code == 70
    assert "Traceback" in shown.err


class _Clock:
    """Goes on by a fixed step at each look."""

    def __init__(self, step_s: float) -> None:
        self.now_s, self.step_s = 0.0, step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def test_without_a_terminal_a_line_comes_at_least_every_ten_seconds(
    cli: Cli, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = RungResult(rung=Rung.SCOPED, state=RungState.RUNNING)
    engine.serve_run(green_run(rungs=(running, *green_run().rungs)))
    monkeypatch.setattr("glideslope.surfaces.cli.entry.time.monotonic", _Clock(4.0))
    shown = cli("verify", "--json")
    assert shown.json["ok"]
    assert [line for line in shown.err.splitlines() if line.startswith("diagnose.files: 3 files")]
    assert cli("verify", "--quiet").err == ""


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_progress_is_one_line_that_is_taken_away_again(
    cli: Cli, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("io.TextIOWrapper", _Terminal)
    engine.serve_run(green_run())
    shown = cli("verify")
    assert "\n" not in shown.err
    assert "\r\x1b[K⟳ diagnose.files: 3 files, 0 new findings" in shown.err
    assert shown.err.endswith("\r\x1b[K")
    assert cli("verify", "--quiet").err == ""


def test_a_reader_that_leaves_before_the_verdict_is_not_told_green(
    cli: Cli, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr("glideslope.surfaces.cli.entry._discard_stdout", lambda: None)
    engine.serve_run(green_run())
    out, err = Closed(), io.StringIO()
    assert run_cli(["verify", "--ndjson"], connect=engine, environ={}, out=out, err=err) == 141


def _status(run: Run, *, snapshot: str, active: bool = False) -> Status:
    return Status(
        active=(RunView(run=run, current=True),) if active else (),
        queue=(),
        cap=2,
        workspace=run.scope,
        sandbox_profile="agent_ephemeral",
        verify_snapshot_id=snapshot,
        current=False,
        last_run_id=run.id,
        last_verdict=run.verdict,
        pid=7,
        version="0",
        uptime_s=1.0,
    )


def _in_turn(*answers: Any) -> Callable[[object], Any]:
    left = list(answers)

    def answer(action: object) -> Any:
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


def test_watch_verifies_again_once_the_workspace_has_changed_and_is_quiet(
    cli: Cli, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = green_run()
    engine.serve_run(run)
    starts = engine.replies[Verify]
    verified = 0
    looks: list[int] = []  # at the workspace, before each verify

    def start(action: Verify) -> Started:
        nonlocal verified
        verified += 1
        looks.append(len(engine.actions(GetStatus)))
        if verified == 3:
            raise KeyboardInterrupt
        assert callable(starts)
        found = starts(action)
        assert isinstance(found, Started)
        return found

    def look(action: object) -> RunView:
        if len(engine.asked) and engine.asked[-1][0] == action and verified == 1:
            stale = AgentVerifyEpochStale(
                run_id=run.id, verify_snapshot_id=SNAPSHOT, reason=StaleReason.WRITE_IN_EPOCH
            )
            threading.Timer(0, engine.publish, (stale,)).start()
        return RunView(run=run, current=verified == 1)

    engine.replies[Verify] = start
    engine.replies[GetRun] = look
    engine.replies[GetStatus] = _in_turn(
        _status(run, snapshot="s1-a"),
        *[_status(run, snapshot="s1-b")] * 6,
        _status(run, snapshot="s1-b", active=True),  # somebody else verifies it
        _status(run, snapshot="s1-b"),
    )
    monkeypatch.setattr("glideslope.surfaces.cli.entry.time.monotonic", _Clock(0.2))
    monkeypatch.setattr("glideslope.surfaces.cli.watch.time.sleep", lambda seconds: None)
    shown = cli("verify", "--watch")
    assert shown.code == 6
    assert shown.out.count("Verify · standard") == 2
    second = shown.out.splitlines().index("Verify · standard · epoch 3f9a", 1)
    assert shown.out.splitlines()[second - 2] == ""
    assert re.fullmatch(r"\d\d:\d\d:\d\d", shown.out.splitlines()[second - 1])
    looks_in_a_window = 1.5 / 0.2
    assert looks[1] > 8 + looks_in_a_window - 1


def test_watch_has_no_single_answer(cli: Cli) -> None:
    shown = cli("verify", "--watch", "--json")
    assert shown.code == 2
    assert "--ndjson" in shown.json["error"]["message"]


def test_a_superseded_run_is_stale(cli: Cli, engine: ScriptedEngine) -> None:
    run = green_run(verdict=Verdict.STALE, stale=Staleness(reason=StaleReason.SUPERSEDED))
    engine.serve_run(run, current=False)
    shown = cli("verify", "--json")
    assert shown.code == 4
    assert shown.json["data"]["stale"] == {"reason": "superseded", "paths": []}
