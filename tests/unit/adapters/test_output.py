"""Streams of any length, kept in bounded memory."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glideslope.adapters.environments.output import BoundedStream, LineSplitter
from glideslope.errors import InvalidInput
from glideslope.model.sandbox import OutputPolicy


def cut(content: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(content), *(place % (len(content) + 1) for place in places)})
    return [content[start:end] for start, end in pairwise(edges)]


PLACES = st.lists(st.integers(0, 300), max_size=12)


@given(st.binary(max_size=300), PLACES, st.integers(0, 40), st.integers(0, 40))
def test_head_and_tail_are_the_ends_however_the_stream_is_cut(
    content: bytes, places: list[int], head: int, tail: int
) -> None:
    stream = BoundedStream(OutputPolicy(head_bytes=head, tail_bytes=tail), None)
    for piece in cut(content, places):
        stream.feed(piece)
    kept = stream.captured()
    assert kept.head == content[:head]
    rest = content[head:]
    assert kept.tail == (rest[-tail:] if tail else b"")
    assert (kept.total_bytes, kept.omitted_bytes) == (len(content), max(0, len(rest) - tail))
    if not kept.omitted_bytes:
        assert kept.complete == content


@given(st.lists(st.binary(max_size=30).filter(lambda line: b"\n" not in line), max_size=10), PLACES)
def test_lines_are_the_same_however_the_stream_is_cut(lines: list[bytes], places: list[int]) -> None:
    splitter = LineSplitter()
    content = b"".join(line + b"\n" for line in lines) + b"rest"
    assert [line for piece in cut(content, places) for line in splitter.feed(piece)] == lines


def test_a_line_without_measure_is_dropped_and_the_next_one_is_whole() -> None:
    splitter = LineSplitter(most_bytes=8)
    found = [line for piece in (b"12345", b"6789", b"more\nne", b"xt\n") for line in splitter.feed(piece)]
    assert (found, splitter.dropped) == ([b"next"], 1)


def test_a_negative_bound_is_refused() -> None:
    with pytest.raises(InvalidInput):
        OutputPolicy(head_bytes=-1)
