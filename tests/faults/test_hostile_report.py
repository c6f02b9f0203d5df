"""Lines on the report stream that no plugin of ours wrote."""

from __future__ import annotations

import pytest

from glideslope.toolchains.python.endings import progress, read_session

FAILED = b'{"kind": "test", "nodeid": "t.py::t", "outcomes": ["failed"]}'


@pytest.mark.parametrize("junk", [b"[" * 200_000, b'{"a":' * 200_000, b"\xff\xfe", b"7", b"", b"null"])
def test_a_line_that_is_no_record_costs_neither_the_run_nor_the_records_after_it(junk: bytes) -> None:
    assert progress(junk) is None
    assert [case.nodeid for case in read_session([junk, FAILED]).failing] == ["t.py::t"]
