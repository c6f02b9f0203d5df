"""What every store of logs must do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from glideslope.adapters.logs import MAX_PAGE_BYTES, LogFolder
from glideslope.errors import InvalidInput, UnknownId
from glideslope.model.ids import LogRef, TaskId


@pytest.fixture
def logs(tmp_path: Path) -> LogFolder:
    return LogFolder(str(tmp_path))


def stored(logs: LogFolder, content: bytes) -> LogRef:
    ref, path = logs.new(TaskId("task-1"))
    Path(path).write_bytes(content)
    return ref


def test_a_new_log_is_empty_private_and_unlike_any_other(logs: LogFolder) -> None:
    (first, path), (second, _) = logs.new(TaskId("a/../b c")), logs.new(TaskId("a/../b c"))

    assert first != second
    assert logs.read(first, offset=0, limit=10) == (0, b"", 0)
    assert os.stat(path).st_mode & 0o077 == 0


def test_a_page_is_exactly_the_bytes_asked_for(logs: LogFolder) -> None:
    ref = stored(logs, bytes(range(256)))

    assert logs.read(ref, offset=250, limit=3) == (250, b"\xfa\xfb\xfc", 256)
    assert logs.read(ref, offset=250, limit=100) == (250, b"\xfa\xfb\xfc\xfd\xfe\xff", 256)
    assert logs.read(ref, offset=-2, limit=100) == (254, b"\xfe\xff", 256)
    assert logs.read(ref, offset=-1000, limit=1) == (0, b"\x00", 256)
    assert logs.read(ref, offset=1000, limit=1) == (256, b"", 256)


def test_a_page_is_bounded_whatever_is_asked_for(logs: LogFolder) -> None:
    ref = stored(logs, b"x" * (MAX_PAGE_BYTES + 10))

    assert len(logs.read(ref, offset=0, limit=1 << 40)[1]) == MAX_PAGE_BYTES
    assert len(logs.tail(ref, lines=1)[1]) == MAX_PAGE_BYTES
    with pytest.raises(InvalidInput):
        logs.read(ref, offset=0, limit=-1)


@pytest.mark.parametrize(
    ("content", "lines", "expected"),
    [
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"a\nb\nc", 9, b"a\nb\nc"),
        (b"a\n\n\n", 2, b"\n\n"),
        (b"a\rb\x0bc\n", 1, b"a\rb\x0bc\n"),
        (b"a\n", 0, b""),
        (b"", 3, b""),
        (b"x" * 200_000 + b"\n" + b"y" * 200_000 + b"\n", 1, b"y" * 200_000 + b"\n"),
    ],
)
def test_the_tail_is_the_last_lines(logs: LogFolder, content: bytes, lines: int, expected: bytes) -> None:
    ref = stored(logs, content)

    assert logs.tail(ref, lines=lines) == (len(content) - len(expected), expected, len(content))


@pytest.mark.process
def test_a_search_gives_the_lines_that_match_and_no_others(logs: LogFolder) -> None:
    content = b"ok 1\nFAILED a\xff.py\nok 2\r\nFAILED b.py"
    ref = stored(logs, content)

    assert logs.grep(ref, "^FAILED") == (0, b"FAILED a\xff.py\nFAILED b.py", len(content))
    assert logs.grep(ref, r"\d$", offset=5) == (5, b"ok 2\r\n", len(content))
    assert logs.grep(ref, "nothing like it") == (0, b"", len(content))
    with pytest.raises(InvalidInput, match="regular expression"):
        logs.grep(ref, "(")


@pytest.mark.process
def test_a_pattern_that_never_ends_is_refused(logs: LogFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glideslope.adapters.logs.GREP_S", 0.3)
    ref = stored(logs, b"a" * 100 + b"!\n")

    with pytest.raises(InvalidInput, match="simpler"):
        logs.grep(ref, "(a+)+$")


@pytest.mark.parametrize(
    "ref",
    ["", ".", "..", "../secret", "/etc/passwd", "a/b", "a.b", "x\0y", "nope", "\udcff", "a\n", "-rf", "link"],
)
def test_what_is_no_reference_is_unknown(tmp_path: Path, ref: str) -> None:
    (tmp_path / "secret.log").write_text("secret")
    (tmp_path / "logs").mkdir()
    logs = LogFolder(str(tmp_path / "logs"))

    for read in (lambda: logs.read(LogRef(ref), offset=0, limit=10), lambda: logs.tail(LogRef(ref), lines=1)):
        with pytest.raises(UnknownId):
            read()
