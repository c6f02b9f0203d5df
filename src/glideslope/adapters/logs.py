"""Stored logs of tasks: bytes as they came, read in pages.

A reference is a file name in the folder of logs and nothing else; whatever is not a plain file of
that form is unknown, so no reference leads out of the folder.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from glideslope.adapters.state import unavailable
from glideslope.errors import InvalidInput, UnknownId
from glideslope.model.ids import LogRef, TaskId

MAX_PAGE_BYTES = 1 << 20
GREP_S = 5.0
_REF = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}\Z")
_STEP_BYTES = 1 << 16


class LogFolder:
    """Port `Logs` on a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def new(self, task: TaskId) -> tuple[LogRef, str]:
        """A reference for a task's log, and the host path its bytes are to be written to.

        The file exists, is empty and is readable by its user only.

        Raises:
            StateUnavailable: The file cannot be made.
        """
        stem = re.sub(r"[^A-Za-z0-9]+", "-", task).strip("-")[:60] or "task"
        ref = LogRef(f"{stem}-{secrets.token_hex(4)}")
        path = self._path(ref)
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise unavailable(error, self._folder) from error
        return ref, path

    def read(self, ref: LogRef, *, offset: int, limit: int) -> tuple[int, bytes, int]:
        """A page: start, bytes, total size. A negative offset counts from the end.

        Args:
            ref: The log.
            offset: In bytes; beyond the end it is the end, before the start the start.
            limit: In bytes, `MAX_PAGE_BYTES` at most are returned.

        Raises:
            UnknownId: No such log, or not a reference.
            InvalidInput: A limit below zero.
        """
        if limit < 0:
            raise InvalidInput(
                f"limit {limit} is negative: give a number of bytes", field="limit", value=limit
            )
        with self._open(ref) as (file, total):
            start = max(0, total + offset) if offset < 0 else min(offset, total)
            file.seek(start)
            return start, file.read(min(limit, MAX_PAGE_BYTES)), total

    def tail(self, ref: LogRef, *, lines: int) -> tuple[int, bytes, int]:
        """The last lines, as `read` would give them; at most `MAX_PAGE_BYTES`.

        Raises:
            UnknownId: No such log, or not a reference.
            InvalidInput: Fewer than no lines.
        """
        if lines < 0:
            raise InvalidInput(
                f"{lines} lines are asked for: give 0 or more", field="tail_lines", value=lines
            )
        with self._open(ref) as (file, total):
            start, found = total, b""
            while start > 0 and found.count(b"\n", 0, -1) < lines and total - start < MAX_PAGE_BYTES:
                step = min(_STEP_BYTES, start)
                start -= step
                file.seek(start)
                found = file.read(step) + found
            kept = b"".join(_lines(found)[-lines:])[-MAX_PAGE_BYTES:] if lines else b""
            return total - len(kept), kept, total

    def grep(self, ref: LogRef, pattern: str, *, offset: int = 0) -> tuple[int, bytes, int]:
        """The lines that a regular expression matches; at most `MAX_PAGE_BYTES` of them.

        The search runs in a process of its own, because a pattern can take for ever.

        Args:
            ref: The log.
            pattern: In the syntax of Python's `re`, searched in each line.
            offset: Byte to start from.

        Returns:
            Where the search started, the matching lines, and the size of the log.

        Raises:
            UnknownId: No such log, or not a reference.
            InvalidInput: No regular expression, or one that takes too long.
        """
        try:
            re.compile(os.fsencode(pattern))
        except re.error as error:
            raise InvalidInput(
                f"{pattern!r} is no regular expression: {error}", field="grep", value=pattern
            ) from None
        with self._open(ref) as (file, total):
            start = max(0, total + offset) if offset < 0 else min(offset, total)
            argv = (sys.executable, "-I", "-S", "-c", _GREP, pattern, str(start), str(MAX_PAGE_BYTES))
            try:
                done = subprocess.run(argv, stdin=file, capture_output=True, timeout=GREP_S, check=True)
            except subprocess.TimeoutExpired:
                text = f"searching for {pattern!r} took more than {GREP_S:g} s: use a simpler pattern"
                raise InvalidInput(text, field="grep", value=pattern) from None
            return start, done.stdout, total

    def _path(self, ref: str) -> str:
        return os.path.join(self._folder, f"{ref}.log")

    @contextmanager
    def _open(self, ref: LogRef) -> Iterator[tuple[BinaryIO, int]]:
        """The file and its size now; a log that is still written is read as far as it is."""
        if not _REF.match(ref):
            raise _unknown(ref)
        try:
            descriptor = os.open(self._path(ref), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            raise _unknown(ref) from None
        except OSError as error:
            raise unavailable(error, self._folder) from error
        with open(descriptor, "rb") as file:
            yield file, os.fstat(descriptor).st_size


def _lines(data: bytes) -> list[bytes]:
    """The lines of some bytes with their ends; only a line feed ends a line."""
    *whole, rest = data.split(b"\n")
    return [*(line + b"\n" for line in whole), *([rest] if rest else [])]


def _unknown(ref: str) -> UnknownId:
    return UnknownId(
        f"no log {ref!r}: `glideslope last` names the logs of a run", next="glideslope last", ref=ref
    )


_GREP = """
import os, re, sys
find = re.compile(os.fsencode(sys.argv[1])).search
left = int(sys.argv[3])
source = sys.stdin.buffer
source.seek(int(sys.argv[2]))
for line in iter(lambda: source.readline(1 << 20), b""):
    if find(line.rstrip(b"\\r\\n")):
        sys.stdout.buffer.write(line[:left])
        left -= len(line)
        if left <= 0:
            break
"""
