"""Shapes that outside clients rely on: golden samples, schemas, and text that JSON can carry."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glideslope.engine.actions import (
    Cancelled,
    Diagnosis,
    HealthCheck,
    LogPage,
    Pruned,
    PrunedItem,
    QueuedTask,
    RunList,
    RunView,
    Status,
)
from glideslope.errors import GlideslopeError, UnknownId, from_wire
from glideslope.machines.settings.layer import Source
from glideslope.model.event import (
    AgentEnvironmentTaskChanged,
    AgentEnvironmentTaskCompleted,
    AgentEnvironmentTaskDied,
    AgentRunPhaseChanged,
    AgentRunStarted,
    AgentVerifyEpochCurrent,
    AgentVerifyEpochStale,
    AgentVerifyRungChanged,
    Event,
    HostDied,
    Recorded,
)
from glideslope.model.ids import LogRef, Scope, TaskId
from glideslope.model.result import CancelReason, RungResult, RungState, StaleReason, Verdict
from glideslope.model.run import Staleness
from glideslope.model.rung import Rung
from glideslope.model.settings import Settings
from glideslope.model.task import TaskState
from glideslope.model.timeslice import Phase
from glideslope.surfaces.wire.answer import (
    WireConfig,
    WireConfigFile,
    WireConfigProblem,
    WireDaemonStatus,
    wire_cancelled,
    wire_doctor,
    wire_log,
    wire_pruned,
    wire_runs,
    wire_settings,
    wire_status,
)
from glideslope.surfaces.wire.envelope import failure, success, to_json, wire_error
from glideslope.surfaces.wire.event import wire_event
from glideslope.surfaces.wire.run import reason_code, wire_run
from glideslope.surfaces.wire.schema import SHAPES, envelope_schema, settings_schema
from glideslope.surfaces.wire.text import path_text, plain_text, text_path
from glideslope.testing.sample import RUN_ID, SNAPSHOT, green_run, red_run
from glideslope.testing.scripted_engine import completed

GOLDEN = Path(__file__).parents[1] / "golden" / "wire"
REWRITE = "GLIDESLOPE_REWRITE_GOLDEN"  # set to 1 to accept what the code says now


def golden(name: str, text: str) -> None:
    """Compares with the golden file of that name."""
    file = GOLDEN / name
    if os.environ.get(REWRITE) == "1":
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"to accept it, run with {REWRITE}=1"


def pretty(value: object) -> str:
    return json.dumps(json.loads(to_json(value)), indent=1, ensure_ascii=False) + "\n"


def samples() -> dict[str, tuple[str, object]]:
    """Of each shape: the action, and data with everything in it."""
    red = RunView(run=red_run(), current=True)
    stale = RunView(
        run=green_run(
            verdict=Verdict.STALE,
            stale=Staleness(reason=StaleReason.WRITE_IN_EPOCH, paths=("b.py", "a\udcff.py")),
            dirty_paths=("\udce9.py",),
            rungs=(RungResult(rung=Rung.DIAGNOSE, state=RungState.PASS, cached_from=RUN_ID),),
        ),
        current=False,
    )
    status = Status(
        active=(RunView(run=green_run(verdict=None, rungs=(), time=None, ended_at=None), current=True),),
        queue=(
            QueuedTask(
                task_id=TaskId("t-1"), kind="pytest.run", lane="foreground", state="running", run_id=RUN_ID
            ),
        ),
        cap=2,
        workspace="/home/dev/sh\udcf6p",
        sandbox_profile="agent_ephemeral",
        verify_snapshot_id=SNAPSHOT,
        current=False,
        last_run_id=RUN_ID,
        last_verdict="stale",
        pid=4242,
        version="0.1.0",
        uptime_s=1.23456,
    )
    page = LogPage(ref=LogRef("pytest-12ab"), start=0, end=3, total_bytes=9, content="zwölf".encode()[:3])
    config = WireConfig(
        settings=wire_settings(Settings()),
        sources={"agent.environment.network": "default"},
        files=[WireConfigFile(source=Source.USER, path="/home/dev/settings.toml", exists=False)],
        digest="0" * 16,
        problems=[WireConfigProblem(where="glideslope.toml:2", key="a.b", message="unknown key")],
        warnings=["careful"],
    )
    return {
        "run": ("verify", wire_run(red)),
        "run-stale": ("last", wire_run(stale)),
        "runs": ("runs", wire_runs(RunList(runs=(red,), next=RUN_ID))),
        "status": ("status", wire_status(status)),
        "cancel": ("cancel", wire_cancelled(Cancelled(cancelled=(RUN_ID,), survivors=0))),
        "log": ("log", wire_log(page)),
        "doctor": (
            "doctor",
            wire_doctor(Diagnosis(checks=(HealthCheck(id="git", state="ok", effect="2.39"),))),
        ),
        "prune": (
            "prune",
            wire_pruned(
                Pruned(
                    items=(PrunedItem(kind="tree", name="t1", size_bytes=5),),
                    freed_bytes=5,
                    state_bytes=50,
                    applied=False,
                )
            ),
        ),
        "config": ("config", config),
        "daemon": (
            "daemon",
            WireDaemonStatus(
                running=True,
                pid=4242,
                version="0.1.0",
                uptime_s=1.5,
                busy=False,
                socket="/run/user/1000/glideslope/0123456789abcdef.sock",
                state_dir="/home/dev/.local/state/glideslope",
            ),
        ),
    }


@pytest.mark.parametrize("name", sorted(samples()))
def test_an_envelope_is_what_it_always_was(name: str) -> None:
    action, data = samples()[name]
    golden(f"{name}.json", pretty(success(action, data)))


def test_an_error_is_what_it_always_was_and_can_be_rebuilt() -> None:
    error = UnknownId("no run 'a\udcff' is known", next="glideslope runs", run="a\udcff", count=3, other=None)
    envelope = failure("run", wire_error(error))
    golden("error.json", pretty(envelope))
    plain = json.loads(to_json(envelope))["error"]
    rebuilt = from_wire(
        plain["code"], plain["message"], kind=plain["kind"], next=plain["next"], fields=plain["fields"]
    )
    assert type(rebuilt) is UnknownId
    assert (rebuilt.next, rebuilt.fields["count"]) == ("glideslope runs", 3)


def test_every_error_class_has_a_code_of_its_own_and_survives_the_wire() -> None:
    def tree(root: type[GlideslopeError]) -> list[type[GlideslopeError]]:
        return [root, *(found for child in root.__subclasses__() for found in tree(child))]

    classes = [kind for kind in tree(GlideslopeError) if kind.__module__.startswith("glideslope.")]
    assert len({kind.code for kind in classes}) == len(classes)
    for kind in classes[1:]:
        sent = wire_error(kind("what: next step"))
        assert type(from_wire(sent.code, sent.message, kind=sent.kind)) is kind


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_the_schema_of_an_envelope_is_what_it_always_was(name: str) -> None:
    golden(f"{name}.schema.json", pretty(envelope_schema(name)))


def test_the_schema_of_the_settings_is_what_it_always_was() -> None:
    golden("settings.schema.json", pretty(settings_schema()))


@pytest.mark.parametrize("name", sorted(samples()))
def test_a_sample_fits_its_own_schema_and_reads_back(name: str) -> None:
    _, data = samples()[name]
    shape = SHAPES[name.removesuffix("-stale")]
    assert msgspec.json.decode(to_json(data), type=shape) == data
    found = json.loads(to_json(data))
    schema = envelope_schema(name.removesuffix("-stale"))
    reference = schema["properties"]["data"]["anyOf"][0]["$ref"].rpartition("/")[2]  # type: ignore[index]
    described = schema["$defs"][reference]  # type: ignore[index]
    assert set(found) <= set(described["properties"])
    assert set(described["required"]) <= set(found)


def test_the_fields_that_scripts_rely_on_are_there() -> None:
    """The names of the contract, written down a second time on purpose."""
    run = json.loads(to_json(wire_run(RunView(run=red_run(), current=True))))
    assert set(run) >= {
        "run_id",
        "epoch_id",
        "scope",
        "verify_policy",
        "sandbox_profile",
        "isolation",
        "verify_snapshot_id",
        "git_head",
        "tree_id",
        "inputs_digest",
        "environment_key",
        "dirty_paths",
        "current",
        "base_snapshot_id",
        "base_reason",
        "changed_paths",
        "verdict",
        "stale",
        "required_rung",
        "max_rung_reached",
        "rungs",
        "time_ms",
        "started_at",
        "ended_at",
        "parent_run_id",
    }
    assert set(run["time_ms"]) == {"wall", "reasoning", "environment", "blocked", "idle_user", "overlapped"}
    diagnosed, *_, tested = run["rungs"]
    assert set(tested) >= {
        "verify_rung",
        "state",
        "duration_ms",
        "queued_ms",
        "cached",
        "cached_from",
        "summary",
        "reason",
        "diagnostics",
        "tests",
        "exit_code",
        "log_ref",
        "host_kind",
        "stderr_tail",
        "base_snapshot_id",
        "projects",
        "reason_code",
        "host",
    }
    assert set(tested["projects"][0]) == {"name", "state", "duration_ms", "summary"}
    assert set(tested["tests"]) >= {
        "selected",
        "total",
        "passed",
        "failed",
        "skipped",
        "errors",
        "cached",
        "failing",
        "selection",
    }
    assert set(tested["tests"]["failing"][0]) >= {"nodeid", "path", "line", "message", "log_ref", "class"}
    assert set(diagnosed["diagnostics"][0]) == {
        "path",
        "line",
        "column",
        "end_line",
        "end_column",
        "severity",
        "code",
        "source",
        "message",
        "new",
        "blocking",
        "sha256",
        "state",
    }


def test_what_is_unknown_is_null_and_lists_are_sorted() -> None:
    run = json.loads(to_json(wire_run(RunView(run=red_run(), current=True))))
    first, second = run["rungs"][0]["diagnostics"]
    assert (first["path"], first["line"], first["column"]) == ("pyproject.toml", None, None)
    assert (second["line"], second["new"], second["state"]) == (3, True, "advisory")
    assert first["new"] is False
    stale = json.loads(to_json(samples()["run-stale"][1]))
    assert stale["stale"]["paths"] == ["a\\xff.py", "b.py"]
    assert stale["rungs"][0]["cached"] is True
    assert stale["rungs"][0]["duration_ms"] is None
    running = json.loads(to_json(samples()["status"][1]))["active"][0]
    assert set(running["time_ms"].values()) == {None}
    cancelled = green_run(verdict=Verdict.CANCELLED, cancelled=CancelReason.TIMEOUT)
    assert wire_run(RunView(run=cancelled, current=True)).reason == "timeout"


@pytest.mark.parametrize(
    ("reason", "code"),
    [("tool_missing", "tool_missing"), ("no code change", "no_code_change"), ("", None), ("it is so", None)],
)
def test_a_reason_has_a_code_where_programs_can_use_it(reason: str, code: str | None) -> None:
    assert reason_code(reason) == code


def one_of_each() -> list[Event]:
    run = green_run()
    return [
        AgentRunStarted(run_id=RUN_ID, run=replace(run, verdict=None)),
        AgentRunPhaseChanged(run_id=RUN_ID, phase=Phase.ENVIRONMENT),
        AgentVerifyRungChanged(run_id=RUN_ID, result=run.rungs[0]),
        AgentEnvironmentTaskChanged(
            task_id=TaskId("t-1"),
            run_id=RUN_ID,
            kind="pytest.run",
            rung=Rung.SCOPED,
            state=TaskState.RUNNING,
            progress=0.5,
            message="6 of 12",
            queued_by=(RUN_ID,),
        ),
        AgentEnvironmentTaskCompleted(
            task_id=TaskId("t-1"),
            run_id=RUN_ID,
            kind="pytest.run",
            rung=Rung.SCOPED,
            state=TaskState.COMPLETED,
            result_summary="12 passed",
            duration_ms=900,
            queued_ms=1,
            exit_code=0,
        ),
        AgentEnvironmentTaskDied(
            task_id=TaskId("t-2"),
            run_id=RUN_ID,
            kind="pytest.run",
            rung=Rung.SCOPED,
            host_kind="pytest.run",
            exit_code=139,
            stderr_tail="Segmentation fault",
            cause="signal",
        ),
        AgentVerifyEpochStale(
            run_id=RUN_ID, verify_snapshot_id=SNAPSHOT, reason=StaleReason.WRITE_IN_EPOCH, paths=("b", "a")
        ),
        AgentVerifyEpochCurrent(run_id=RUN_ID, verify_snapshot_id=SNAPSHOT),
        HostDied(host_kind="diagnose", pid=77, signal=9, stderr_tail=""),
        completed(run),
    ]


def test_events_are_what_they_always_were() -> None:
    events = one_of_each()
    assert {type(event) for event in events} == set(get_args(Event))
    lines = [
        to_json(
            wire_event(
                Recorded(seq=seq, at="2026-01-02T03:04:05.678Z", event=event, scope=Scope("/home/dev/shop"))
            )
        )
        for seq, event in enumerate(events, start=1)
    ]
    golden("events.ndjson", "\n".join(lines) + "\n")
    for line in lines:
        assert list(json.loads(line))[:5] == ["v", "seq", "at", "ns", "type"]
        assert "run_id" in json.loads(line)


NAMES = st.text(st.characters(exclude_categories=())).filter(lambda name: "\0" not in name)


@given(st.one_of(NAMES, st.binary().map(lambda name: name.decode("utf-8", "surrogateescape"))))
def test_any_path_reads_back_from_json_and_different_paths_stay_different(path: str) -> None:
    written = json.loads(to_json({"path": path_text(path)}))["path"]
    assert text_path(written) == path


@given(NAMES)
def test_any_text_can_be_written_as_json(text: str) -> None:
    assert "\ud800" not in json.loads(to_json(plain_text(text)))


def test_ordinary_names_are_written_as_they_are() -> None:
    assert path_text("src/größe an.py") == "src/größe an.py"
    assert path_text("a\\b") == "a\\\\b"
    assert path_text("a\udcff") == "a\\xff"
    assert plain_text("C:\\x \udcff") == "C:\\x \\xff"


def test_settings_on_the_wire_are_those_of_the_model() -> None:
    found: Any = wire_settings(Settings())
    assert found["agent"]["environment"]["ladder"]["main_branches"] == ["main", "master"]
    assert found["test_profiles"] == {}
