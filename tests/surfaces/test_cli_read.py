"""Commands that only look: what they show, and that they exit 0 when they were served."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from glideslope.engine.actions import (
    Cancel,
    Cancelled,
    Diagnosis,
    Doctor,
    GetRun,
    GetStatus,
    HealthCheck,
    Last,
    ListRuns,
    LogPage,
    Prune,
    Pruned,
    PrunedItem,
    QueuedTask,
    ReadLog,
    RunList,
    RunView,
    Status,
    WaitRun,
)
from glideslope.errors import HostUnavailable, UnknownId
from glideslope.machines.card import view_epoch
from glideslope.model.event import AgentRunStarted, HostDied
from glideslope.model.ids import RunId, TaskId
from glideslope.model.result import Verdict
from glideslope.surfaces.cli.entry import COMMANDS
from glideslope.testing.sample import RUN_ID, green_run, red_run
from glideslope.testing.scripted_engine import ScriptedEngine

Cli = Any  # the fixture of conftest


def a_status(**changes: Any) -> Status:
    status = Status(
        active=(RunView(run=green_run(verdict=None), current=True),),
        queue=(
            QueuedTask(
                task_id=TaskId("t-1"), kind="pytest.run", lane="foreground", state="running", run_id=RUN_ID
            ),
            QueuedTask(
                task_id=TaskId("t-2"), kind="python.build", lane="background", state="queued", run_id=None
            ),
        ),
        cap=2,
        workspace="/home/dev/shop",
        sandbox_profile="agent_ephemeral",
        verify_snapshot_id="s1-90ab12cd34ef5a6b",
        current=True,
        last_run_id=RUN_ID,
        last_verdict="green",
        pid=4242,
        version="0.1.0",
        uptime_s=61.2345,
    )
    return replace(status, **changes)


def test_status_shows_where_the_workspace_stands_first(cli: Cli, engine: ScriptedEngine) -> None:
    engine.replies[GetStatus] = a_status()
    shown = cli("status")
    assert shown.code == 0
    assert shown.out.splitlines() == [
        f"green: run {RUN_ID} speaks of the current snapshot",
        "workspace /home/dev/shop",
        "snapshot s1-90ab12cd34ef5a6b",
        "sandbox agent_ephemeral",
        f"active {RUN_ID} verify running (standard) · required test.scoped · reached test.scoped",
        "queue 1 of 2 running, 1 waiting",
        "  running  foreground  pytest.run",
        "  queued   background  python.build",
        "daemon 4242, version 0.1.0, up 61 s",
    ]
    assert cli("status", "--quiet").out == f"green: run {RUN_ID} speaks of the current snapshot\n"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"current": False}, f"⚠ not verified on the current snapshot: run {RUN_ID} was green"),
        ({"current": None}, f"⚠ not verified on the current snapshot: run {RUN_ID} was green"),
        ({"last_run_id": None}, "not verified: no run yet"),
        ({"last_verdict": None}, f"being verified: run {RUN_ID}"),
    ],
)
def test_status_never_shows_a_verdict_of_other_content_as_if_it_held(
    cli: Cli, engine: ScriptedEngine, changes: dict[str, Any], said: str
) -> None:
    engine.replies[GetStatus] = a_status(**changes)
    assert cli("status").out.splitlines()[0] == said


@pytest.mark.parametrize("command", [["last"], ["run", "0f3a"]])
def test_a_run_is_shown_as_a_block_and_exits_by_verdict_only_where_asked(
    cli: Cli, engine: ScriptedEngine, command: list[str]
) -> None:
    view = RunView(run=red_run(), current=True)
    engine.replies[Last] = engine.replies[GetRun] = view
    shown = cli(*command)
    assert shown.code == 0
    assert shown.out == "\n".join(view_epoch(red_run())) + "\n"
    assert cli(*command, "--exit-code").code == 1
    engine.replies[Last] = engine.replies[GetRun] = replace(view, current=False)
    assert cli(*command, "--exit-code", "--json").code == 4
    engine.replies[Last] = engine.replies[GetRun] = RunView(run=green_run(verdict=None), current=True)
    assert cli(*command, "--exit-code").code == 0


def test_run_wait_asks_until_the_run_has_ended(cli: Cli, engine: ScriptedEngine) -> None:
    left = [RunView(run=green_run(verdict=None), current=True), RunView(run=red_run(), current=True)]
    engine.replies[WaitRun] = lambda action: left.pop(0)
    shown = cli("run", RUN_ID, "--wait", "--json", "--exit-code")
    assert shown.code == 1
    assert not left


def test_an_unknown_id_is_a_request_error(cli: Cli, engine: ScriptedEngine) -> None:
    engine.replies[GetRun] = UnknownId("no run 'zz' is known", next="glideslope runs", run="zz")
    shown = cli("run", "zz", "--json")
    assert shown.code == 2
    assert shown.json["error"] == {
        "code": "unknown_id",
        "kind": "request_error",
        "message": "no run 'zz' is known",
        "fields": {"run": "zz"},
        "next": "glideslope runs",
    }


def test_runs_are_listed_without_findings_and_with_a_cursor(cli: Cli, engine: ScriptedEngine) -> None:
    views = (RunView(run=red_run(), current=True), RunView(run=green_run(verdict=None), current=False))
    engine.replies[ListRuns] = RunList(runs=views, next=RunId("older"))
    data = cli("runs", "--json", "--limit", "2", "--before", "x").json["data"]
    assert data["next"] == "older"
    assert all("diagnostics" not in rung for run in data["runs"] for rung in run["rungs"])
    action = engine.actions(ListRuns)[0]
    assert (action.before, action.limit) == ("x", 2)
    text = cli("runs")
    assert [line.split()[4] for line in text.out.splitlines()] == ["red", "running"]
    assert text.out.splitlines()[0].endswith("current")
    assert text.err == "older ones: glideslope runs --before older\n"


def test_cancel_names_what_was_cancelled(cli: Cli, engine: ScriptedEngine) -> None:
    engine.replies[Cancel] = Cancelled(cancelled=(RUN_ID,), survivors=2)
    shown = cli("cancel", RUN_ID)
    assert shown.code == 0
    assert shown.out == f"cancelled {RUN_ID}\n"
    assert "2 processes" in shown.err
    assert cli("cancel", "--json").json["data"] == {"cancelled": [RUN_ID], "survivors": 2}
    assert [action.run_id for action in engine.actions(Cancel)] == [RUN_ID, None]
    engine.replies[Cancel] = Cancelled(cancelled=(), survivors=0)
    assert cli("cancel").out == "nothing to cancel\n"


CONTENT = "zeile eins\nzwölf\n".encode() + b"\xff\x00end\n"


def _pages(action: ReadLog) -> LogPage:
    start = action.offset if action.offset >= 0 else max(0, len(CONTENT) + action.offset)
    content = CONTENT[start : start + action.limit]
    return LogPage(
        ref=action.ref, start=start, end=start + len(content), total_bytes=len(CONTENT), content=content
    )


def test_a_log_is_printed_whole_and_byte_for_byte(cli: Cli, engine: ScriptedEngine) -> None:
    engine.replies[ReadLog] = _pages
    import io

    from glideslope.surfaces.cli.entry import run

    out, err = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    assert run(["log", "ref", "--limit", "5"], connect=engine, environ={}, out=out, err=err) == 0
    assert isinstance(out.buffer, io.BytesIO)
    assert out.buffer.getvalue() == CONTENT


@pytest.mark.parametrize(
    ("offset", "limit", "text", "base64", "end"),
    [
        (0, 11, "zeile eins\n", None, 11),
        (0, 14, "zeile eins\nzw", None, 13),  # the page would cut a character
        (11, 3, "zw", None, 13),
        (0, 20, None, "emVpbGUgZWlucwp6d8O2bGYK/wA=", 20),
        (-4, 4, "end\n", None, len(CONTENT)),
        (14, 1, None, "tg==", 15),
        (len(CONTENT), 9, "", None, len(CONTENT)),
    ],
)
def test_a_page_of_a_log_is_text_where_it_can_be(
    cli: Cli, engine: ScriptedEngine, offset: int, limit: int, text: str | None, base64: str | None, end: int
) -> None:
    engine.replies[ReadLog] = _pages
    data = cli("log", "ref", "--json", "--from", str(offset), "--limit", str(limit)).json["data"]
    assert (data["text"], data["base64"], data["to"]) == (text, base64, end)
    assert data["total_bytes"] == len(CONTENT)


def test_log_options_reach_the_engine(cli: Cli, engine: ScriptedEngine) -> None:
    engine.replies[ReadLog] = _pages
    cli("log", "ref", "--tail", "3", "--json")
    cli("log", "ref", "--grep", "a.b", "--json")
    assert [(action.tail_lines, action.grep) for action in engine.actions(ReadLog)] == [
        (3, None),
        (None, "a.b"),
    ]


def _publish_three(engine: ScriptedEngine) -> None:
    engine.publish(AgentRunStarted(run_id=RUN_ID, run=green_run(verdict=None)))
    engine.publish(HostDied(host_kind="pytest.run", pid=3, signal=9))
    engine.publish(AgentRunStarted(run_id=RUN_ID, run=green_run(verdict=None)))


@pytest.mark.parametrize(
    ("arguments", "seqs"),
    [([], [1, 2, 3]), (["--from", "2"], [2, 3]), (["--from", "0"], [1, 2, 3]), (["--type", "HostDied"], [2])],
)
def test_events_come_as_lines_from_a_place_on(
    cli: Cli, engine: ScriptedEngine, arguments: list[str], seqs: list[int]
) -> None:
    _publish_three(engine)
    for form in ([], ["--ndjson"]):
        assert [event["seq"] for event in cli("events", *arguments, *form).lines] == seqs
    data = cli("events", *arguments, "--json").json["data"]
    assert [event["seq"] for event in data["events"]] == seqs
    assert data["next"] == 4


def test_events_can_be_followed_until_interrupted(cli: Cli, engine: ScriptedEngine) -> None:
    _publish_three(engine)
    engine.stream_ends_after = 2
    assert [event["seq"] for event in cli("events", "--follow", "--from", "2").lines] == [2, 3]
    assert cli("events", "--follow", "--json").code == 2
    assert cli("events", "--type", "NoSuch").code == 2


def test_doctor_says_what_is_missing_and_how_to_get_it(cli: Cli, engine: ScriptedEngine) -> None:
    checks = (
        HealthCheck(id="git", state="ok", effect="git 2.39"),
        HealthCheck(id="isolation", state="degraded", effect="tier copy", next="allow user namespaces"),
    )
    engine.replies[Doctor] = Diagnosis(checks=checks)
    shown = cli("doctor")
    assert shown.code == 0
    assert [line.split() for line in shown.out.splitlines()] == [
        ["ok", "git", "git", "2.39"],
        ["degraded", "isolation", "tier", "copy"],
        ["next:", "allow", "user", "namespaces"],
    ]
    assert "git 2.39" not in cli("doctor", "--quiet").out
    assert cli("doctor", "--json").json["data"]["checks"][0]["next"] is None


def test_doctor_explains_a_daemon_that_cannot_be_started(cli: Cli, engine: ScriptedEngine) -> None:
    engine.replies[Doctor] = HostUnavailable("the daemon ended: no space", next="glideslope doctor")
    shown = cli("doctor", "--json")
    assert shown.code == 0
    assert shown.json["data"]["checks"] == [
        {"id": "daemon", "state": "missing", "effect": "the daemon ended: no space", "next": None}
    ]


def test_prune_lists_before_it_removes(cli: Cli, engine: ScriptedEngine) -> None:
    items = (
        PrunedItem(kind="tree", name="t1", size_bytes=1_500_000),
        PrunedItem(kind="log", name="l1", size_bytes=12),
        PrunedItem(kind="runs", name="75 old runs", size_bytes=0),
    )
    engine.replies[Prune] = lambda action: Pruned(
        items=items, freed_bytes=1_500_012, state_bytes=3_000_000_000, applied=action.apply
    )
    shown = cli("prune")
    assert shown.out.splitlines() == [
        "   1.5 MB  tree       t1",
        "     12 B  log        l1",
        "           runs       75 old runs",
        "1.5 MB could be removed, 3.0 GB in the state folder",
    ]
    assert shown.err == "next: glideslope prune --apply\n"
    assert "1.5 MB removed" in cli("prune", "--apply", "--keep-runs", "0", "--quiet").out
    assert [(action.apply, action.keep_runs) for action in engine.actions(Prune)] == [
        (False, None),
        (True, 0),
    ]


def test_config_show_says_where_each_value_comes_from(cli: Cli) -> None:
    Path("glideslope.toml").write_text(
        '[agent.environment]\nkeep_runs = 7\n[test_profiles.unit]\ncommand = ["x"]\n'
    )
    shown = cli("config", "show", environ={"GLIDESLOPE__AGENT__ENVIRONMENT__NETWORK": "host"})
    assert "keep_runs = 7  # glideslope.toml" in shown.out
    assert 'network = "loopback"  # default' in shown.out
    assert 'command = ["x"]  # glideslope.toml' in shown.out
    assert "warning: GLIDESLOPE__AGENT__ENVIRONMENT__NETWORK" in shown.err
    data = cli("config", "show", "--json").json["data"]
    assert data["settings"]["agent"]["environment"]["keep_runs"] == 7
    assert data["settings"]["test_profiles"] == {"unit": {"command": ["x"], "timeout_s": 600.0}}
    assert data["sources"]["agent.environment.keep_runs"] == "glideslope.toml"
    assert [file["exists"] for file in data["files"]] == [False, True, True]


def test_config_check_exits_2_where_something_is_wrong(cli: Cli) -> None:
    assert cli("config", "check").code == 0
    Path("glideslope.toml").write_text("[agent.environment]\nkeep_run = 7\n")
    shown = cli("config", "check")
    assert shown.code == 2
    assert "error: glideslope.toml:2: agent.environment.keep_run: unknown key: did you mean" in shown.err
    data = cli("config", "check", "--json").json["data"]
    assert data["problems"][0]["where"] == "glideslope.toml:2"


def test_config_works_outside_of_any_workspace(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    assert cli("config", "show", "--json").json["data"]["files"][0]["source"] == "user file"


def test_config_schema_is_json_schema(cli: Cli) -> None:
    text = json.loads(cli("config", "schema").out)
    assert text["properties"]["agent"]["additionalProperties"] is False
    assert cli("config", "schema", "--json").json["data"] == text
    of_run = json.loads(cli("config", "schema", "--of", "run").out)
    assert of_run["properties"]["schema"] == {"const": "glideslope/1"}
    assert cli("config", "schema", "--of", "nothing").code == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(cli: Cli, shell: str) -> None:
    shown = cli("completion", shell)
    assert "_GLIDESLOPE_COMPLETE" in shown.out
    assert "_GLIDE_COMPLETE" in shown.out
    assert cli("completion", shell, "--json").json["data"]["script"].strip() == shown.out.strip()


@pytest.mark.parametrize(
    ("arguments", "message", "next_step"),
    [
        (["verfy"], "did you mean verify?", "glideslope --help"),
        (["xxyz"], "no command 'xxyz'", "glideslope --help"),
        (["--json"], "options follow the command", "glideslope --help"),
        (["log", "--tail"], "requires an argument", "glideslope log --help"),
        (["test", "-k", "foo"], "by their node ids", "glideslope test --help"),
        (["test", "--", "-k", "foo"], "by their node ids", "glideslope test --help"),
    ],
)
def test_a_command_line_that_cannot_be_read_is_answered_with_what_may_have_been_meant(
    cli: Cli, arguments: list[str], message: str, next_step: str
) -> None:
    shown = cli(arguments[0], "--json", *arguments[1:])
    assert shown.code == 2
    assert message in shown.json["error"]["message"]
    assert "--version" not in shown.json["error"]["message"]
    assert shown.json["error"]["next"] == next_step


def _completed(cli: Cli, words: str, typed: str) -> list[str]:
    import io

    from click.shell_completion import BashComplete

    from glideslope.surfaces.cli.app import App
    from glideslope.surfaces.cli.entry import ROOT
    from glideslope.surfaces.cli.output import Mode, Output

    app = App(
        output=Output(out=io.StringIO(), err=io.StringIO(), mode=Mode.TEXT, action=""),
        connect=cli.engine,
        environ={},
        folder="/",
        monotonic_s=lambda: 0.0,
    )
    found = BashComplete(ROOT, {"obj": app}, "glideslope", "_X").get_completions(words.split(), typed)
    return [item.value for item in found]


def test_words_are_completed(cli: Cli, engine: ScriptedEngine) -> None:
    assert _completed(cli, "", "ver") == ["verify"]
    assert _completed(cli, "verify", "s") == ["standard", "strict"]
    assert _completed(cli, "verify --policy", "ci") == ["ci_parity", "ci"]
    assert _completed(cli, "verify --rung", "test.") == ["test.scoped", "test.full"]
    assert _completed(cli, "verify --sandbox", "agent_e") == ["agent_ephemeral"]
    engine.replies[ListRuns] = RunList(runs=(RunView(run=green_run(), current=True),), next=None)
    assert _completed(cli, "run", "0f") == [RUN_ID]
    engine.up = False
    assert _completed(cli, "run", "0f") == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        [],
        ["verify", "--help"],
        ["nonsense"],
        ["--nonsense"],
        ["config"],
        ["run"],
        ["log"],
    ],
)
def test_json_output_is_one_value_whatever_the_arguments(cli: Cli, arguments: list[str]) -> None:
    shown = cli(*arguments, "--json")
    assert shown.json["schema"] == "glideslope/1"
    assert shown.code in (0, 2)
    assert (shown.code == 0) == shown.json["ok"]
    assert shown.err == ""


def test_help_names_every_command(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli("--help").code == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in COMMANDS)
    for name in COMMANDS:
        assert cli(name, "--help").code == 0


def test_a_reader_that_goes_away_is_no_error(engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    from glideslope.surfaces.cli import entry

    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(entry, "_discard_stdout", lambda: None)
    _publish_three(engine)
    err = io.StringIO()
    assert entry.run(["events"], connect=engine, environ={}, out=Closed(), err=err) == 0
    engine.serve_run(green_run(verdict=Verdict.RED))
    assert entry.run(["verify"], connect=engine, environ={}, out=Closed(), err=err) == 1
    assert err.getvalue() == ""


def test_a_second_envelope_is_never_written() -> None:
    import io

    from glideslope.surfaces.cli.output import Mode, Output
    from glideslope.surfaces.wire.envelope import WireError

    out = io.StringIO()
    output = Output(out=out, err=io.StringIO(), mode=Mode.JSON, action="last")
    output.data({"a": 1})
    output.error(WireError(code="x", kind="y", message="something broke after the answer"))
    assert json.loads(out.getvalue())["data"] == {"a": 1}
