"""What goes to standard output, in which form; and what goes to standard error.

Standard output carries the result and nothing else. In the JSON modes it carries one envelope,
exactly one, whatever happens; with `--ndjson` the events come before it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum
from typing import TextIO

from glideslope.machines.card import ASCII, UNICODE, Glyphs
from glideslope.surfaces.wire.envelope import WireError, failure, success, to_json


class Mode(Enum):
    """How results are shown."""

    TEXT = "text"
    JSON = "json"
    NDJSON = "ndjson"


class OutputLost(Exception):
    """Standard output cannot be written, so the result can be told to nobody."""


class Output:
    """The two streams of one command."""

    def __init__(
        self, *, out: TextIO, err: TextIO, mode: Mode, action: str, quiet: bool = False, plain: bool = False
    ) -> None:
        self._out = out
        self._err = err
        self.mode = mode
        self.action = action
        self.quiet = quiet
        self.glyphs = ASCII if plain or not _can_show(out, UNICODE) else UNICODE
        self.error_glyphs = ASCII if plain or not _can_show(err, UNICODE) else UNICODE
        self.enveloped = False
        for stream in (out, err):
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                reconfigure(errors="backslashreplace")  # names that are not UTF-8 must not end us

    @property
    def is_text(self) -> bool:
        """Whether people read the result."""
        return self.mode is Mode.TEXT

    @property
    def err_is_terminal(self) -> bool:
        """Whether somebody watches standard error."""
        return self._err.isatty()

    def data(self, data: object) -> None:
        """Writes the envelope of an answer; nothing in text mode."""
        if not self.is_text:
            self._envelope(to_json(success(self.action, data)))

    def again(self) -> None:
        """Allows for one more envelope: of a command that answers more than once."""
        self.enveloped = False

    def event(self, event: Mapping[str, object]) -> None:
        """Writes one event as a line."""
        self._write_utf8(to_json(event) + "\n")

    def lines(self, lines: Iterable[str]) -> None:
        """Writes lines of text; nothing in the JSON modes."""
        if self.is_text:
            with _telling():
                self._out.writelines(line + "\n" for line in lines)
                self._out.flush()

    def raw(self, content: bytes) -> None:
        """Writes bytes as they are; nothing in the JSON modes."""
        if self.is_text:
            with _telling():
                self._out.flush()
                buffer = getattr(self._out, "buffer", None)
                if buffer is None:
                    self._out.write(content.decode("utf-8", "backslashreplace"))
                else:
                    buffer.write(content)
                    buffer.flush()

    def note(self, line: str) -> None:
        """Writes a line to standard error; nothing when quiet."""
        if not self.quiet:
            self._to_err(line + "\n")

    def status(self, line: str) -> None:
        """Shows a line in place of the one shown before; an empty one clears it."""
        self._to_err(f"\r\x1b[K{line}")

    def error(self, error: WireError) -> None:
        """Says what went wrong: the envelope, or two lines for people."""
        if not self.is_text:
            self._envelope(to_json(failure(self.action, error)))
            return
        self._to_err(f"glideslope: {error.message}\n")
        if error.next:
            self._to_err(f"next: {error.next}\n")

    def _envelope(self, line: str) -> None:
        if not self.enveloped:
            self.enveloped = True
            self._write_utf8(line + "\n")

    def _write_utf8(self, text: str) -> None:
        """JSON is UTF-8, whatever the locale says."""
        buffer = getattr(self._out, "buffer", None)
        with _telling():
            if buffer is None:
                self._out.write(text)
                self._out.flush()
            else:
                self._out.flush()
                buffer.write(text.encode("utf-8"))
                buffer.flush()

    def _to_err(self, text: str) -> None:
        try:
            self._err.write(text)
            self._err.flush()
        except OSError:
            discard(self._err)  # nobody can be told that nobody can be told


def discard(stream: TextIO) -> None:
    """Sends what is still to come on a stream nowhere; Python would try again at exit, and fail."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


@contextmanager
def _telling() -> Iterator[None]:
    """Around every write of results: what keeps them from being written is no mistake of ours.

    Raises:
        OutputLost: Standard output cannot be written; not where its reader has just gone.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputLost(
            f"standard output cannot be written ({error.strerror or error}): send it elsewhere, and ask again"
        ) from error


def _can_show(stream: TextIO, glyphs: Glyphs) -> bool:
    try:
        "".join([*glyphs.states.values(), glyphs.stale, glyphs.dot, glyphs.dash, glyphs.more]).encode(
            stream.encoding or "ascii"
        )
    except (UnicodeEncodeError, LookupError):
        return False
    return True
