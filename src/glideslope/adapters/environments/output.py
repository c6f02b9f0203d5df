"""Keeps a stream of any length in bounded memory: a head, a tail, a capped file, exact counts."""

from __future__ import annotations

import os

from glideslope.model.sandbox import Captured, OutputPolicy


class BoundedStream:
    """Takes the bytes of one stream as they come.

    Args:
        policy: The bounds.
        log_path: File for the stored log, made at the first byte; None for no log.
    """

    def __init__(self, policy: OutputPolicy, log_path: str | None) -> None:
        self._policy = policy
        self._log_path = log_path
        self._log = -1
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0
        self._logged_bytes = 0

    def feed(self, data: bytes) -> None:
        """Takes the next bytes. A full disk ends the log, not the task."""
        self.total_bytes += len(data)
        self._store(data)
        space = self._policy.head_bytes - len(self._head)
        if space > 0:
            self._head += data[:space]
            data = data[space:]
        bound = self._policy.tail_bytes
        if data and bound:
            self._tail += data[-bound:]
            # Trimmed at double size: each byte is moved once on average, not once per call.
            if len(self._tail) > 2 * bound:
                del self._tail[:-bound]

    def _store(self, data: bytes) -> None:
        space = self._policy.log_bytes - self._logged_bytes
        if self._log_path is None or space <= 0:
            return
        try:
            if self._log < 0:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._log = os.open(self._log_path, flags, 0o600)
            self._logged_bytes += os.write(self._log, data[:space])
        except OSError:
            self.close()
            self._policy = OutputPolicy(
                head_bytes=self._policy.head_bytes, tail_bytes=self._policy.tail_bytes, log_bytes=0
            )

    def close(self) -> None:
        """Closes the log file."""
        if self._log >= 0:
            os.close(self._log)
            self._log = -1

    def captured(self) -> Captured:
        """What was kept."""
        bound = self._policy.tail_bytes
        return Captured(
            head=bytes(self._head),
            tail=bytes(self._tail[-bound:]) if bound else b"",
            total_bytes=self.total_bytes,
            logged_bytes=self._logged_bytes,
            log_path=self._log_path if self._logged_bytes else None,
        )


class LineSplitter:
    """Cuts a stream of bytes into lines. A last line without an end is no line.

    A line over `most_bytes` is dropped and counted, so a runaway writer cannot fill memory.
    """

    def __init__(self, most_bytes: int = 8 * 1024 * 1024) -> None:
        self._most_bytes = most_bytes
        self._parts: list[bytes] = []
        self._held_bytes = 0
        self.dropped = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Takes bytes; returns the lines they complete, without their ends."""
        *ends, rest = data.split(b"\n")
        lines = []
        for end in ends:
            if self._held_bytes + len(end) > self._most_bytes:
                self.dropped += 1
            else:
                lines.append(b"".join((*self._parts, end)))
            self._parts, self._held_bytes = [], 0
        self._held_bytes += len(rest)
        if rest and self._held_bytes <= self._most_bytes:
            self._parts.append(rest)
        elif rest:
            self._parts = []
        return lines
