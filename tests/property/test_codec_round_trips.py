"""Whatever a value holds, it survives the way through a document and through UTF-8 text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glideslope import codec
from glideslope.model.event import (
    AgentEnvironmentTaskChanged,
    AgentEnvironmentTaskCompleted,
    AgentEnvironmentTaskDied,
    AgentRunCompleted,
    AgentRunPhaseChanged,
    AgentRunStarted,
    AgentVerifyEpochCurrent,
    AgentVerifyEpochStale,
    AgentVerifyRungChanged,
    Event,
    HostDied,
    Recorded,
)
from glideslope.model.proof import RungProof
from glideslope.model.result import RungResult
from glideslope.model.run import Run
from glideslope.model.rung import LadderPlan
from glideslope.model.settings import Settings
from glideslope.model.snapshot import Entry, FileMode, Snapshot
from glideslope.model.task import TaskResult, TaskSpec

# Any text, names of files that are not UTF-8 among it, and the codec's own escape character.
TEXT = st.text(
    alphabet=st.one_of(
        st.sampled_from("ab/.0\x10\x00é☠😀"), st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF)
    ),
    max_size=6,
)
st.register_type_strategy(str, TEXT)
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))

HEX = st.text(alphabet="0123456789abcdef", min_size=40, max_size=40)
ENTRIES = st.dictionaries(
    TEXT, st.builds(Entry, st.sampled_from(FileMode), HEX, st.integers(0, 2**40), st.booleans()), max_size=4
)
SNAPSHOTS = st.builds(Snapshot, entries=ENTRIES, inputs=ENTRIES)
EVENTS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        AgentRunStarted,
        AgentRunPhaseChanged,
        AgentVerifyRungChanged,
        AgentEnvironmentTaskChanged,
        AgentEnvironmentTaskCompleted,
        AgentEnvironmentTaskDied,
        AgentVerifyEpochStale,
        AgentVerifyEpochCurrent,
        HostDied,
        AgentRunCompleted,
    )
}
BRISK = settings(max_examples=10, deadline=None, derandomize=True, database=None)


def through_text(document: codec.Document) -> object:
    return json.loads(json.dumps(document, ensure_ascii=False).encode())


@pytest.mark.parametrize("kind", [Run, RungResult, RungProof, TaskSpec, TaskResult, LadderPlan, Settings])
def test_a_value_comes_back_as_it_was(kind: type) -> None:
    @BRISK
    @given(st.builds(kind))
    def check(value: object) -> None:
        assert codec.decode(kind, through_text(codec.encode(value))) == value

    check()


@BRISK
@given(SNAPSHOTS)
def test_a_snapshot_comes_back_as_it_was(snapshot: Snapshot) -> None:
    assert codec.decode(Snapshot, through_text(codec.encode(snapshot))) == snapshot


@pytest.mark.parametrize("name", sorted(EVENTS))
def test_an_event_comes_back_alone_and_in_its_envelope(name: str) -> None:
    @BRISK
    @given(st.builds(EVENTS[name]), st.integers(1, 2**53), TEXT, st.none() | TEXT)
    def check(event: Event, seq: int, at: str, scope: str | None) -> None:
        recorded = Recorded(seq=seq, at=at, event=event, scope=scope)
        assert codec.decode_event(through_text(codec.encode(event))) == event
        assert codec.decode(Recorded, through_text(codec.encode(recorded))) == recorded

    check()
