"""Lines of JSON over the daemon's socket, as any client speaks them.

A line is one frame. The client says `{"hello": {...}}` first and is answered likewise; then

    {"id": 1, "action": "verify", "input": {...}, "tie": true}   a request; `tie` is optional, and
                                                                 so is `"form": "envelope"`
    {"id": 2, "cancel": 1}                                       no answer of its own

and the daemon says, in any order between requests,

    {"id": 1, "ok": true, "data": {...}}             or `"envelope": "<text>"` where that form was asked
    {"id": 1, "ok": false, "error": {"code", "kind", "message", "next", "fields"}}
    {"id": 1, "event": {...}}                        only for `events`, before its answer

A frame with id null and an error is the last one of a connection.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import struct
from collections.abc import Mapping

from glideslope_fast import VERSION

PROTOCOL = 1
MAX_REQUEST_BYTES = 8 << 20
MAX_FRAME_BYTES = 256 << 20  # of the daemon; a run may carry many findings
_CHUNK_BYTES = 1 << 16

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

Frame: TypeAlias = "dict[str, Any]"


class Line:
    """One connection, blocking; for one thread at a time, but for `close`."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._buffer = bytearray()

    @classmethod
    def open(cls, path: str, *, timeout_s: float) -> Line:
        """Connects to a socket and makes sure that its other end is a process of this user.

        Raises:
            OSError: Nobody listens there, or somebody who must not.
        """
        check_private(os.path.dirname(path))
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connected.settimeout(timeout_s)
            connected.connect(path)
            if peer(connected)[1] != os.geteuid():
                raise PermissionError(f"{path} is served by another user")
        except BaseException:
            connected.close()
            raise
        return cls(connected)

    def greet(self) -> Frame:
        """Says who we are and returns who answers: `protocol`, `version`, `pid`, `busy`.

        Raises:
            OSError: The other end went away, or speaks something else.
        """
        self.send({"hello": {"protocol": PROTOCOL, "version": VERSION}})
        hello = self.receive().get("hello")
        if not isinstance(hello, dict):
            raise ConnectionError("what answers on the socket is no daemon of glideslope")
        return hello

    def send(self, frame: Mapping[str, object]) -> None:
        """Sends a frame whole."""
        self._socket.sendall(json.dumps(frame, separators=(",", ":")).encode("ascii") + b"\n")

    def receive(self) -> Frame:
        """The next frame.

        Raises:
            OSError: The time is over (`TimeoutError`), the other end went away, or sent no frame.
        """
        while (end := self._buffer.find(b"\n")) < 0:
            chunk = self._socket.recv(_CHUNK_BYTES)
            if not chunk:
                raise ConnectionError("the daemon closed the connection")
            self._buffer += chunk
            if len(self._buffer) > MAX_FRAME_BYTES:
                raise ConnectionError("the daemon sent a frame without end")
        text = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        try:
            frame = json.loads(text)
        except ValueError as error:
            raise ConnectionError(f"the daemon sent no JSON: {error}") from error
        if not isinstance(frame, dict):
            raise ConnectionError("the daemon sent no frame")
        return frame

    def wait_at_most(self, timeout_s: float | None) -> None:
        """Bounds every wait from now on; None: no bound."""
        self._socket.settimeout(timeout_s)

    def close(self) -> None:
        """Ends the connection, also one that another thread waits on; again is no error."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it was not connected any more
        self._socket.close()


def peer(connected: socket.socket) -> tuple[int, int]:
    """Process and user at the other end, as the kernel saw them when it connected or listened.

    A process that our namespace of processes does not hold has number 0.
    """
    size = struct.calcsize("3i")
    pid, uid, _ = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return pid, uid


def check_private(folder: str) -> None:
    """Makes sure that nobody but this user can put a socket into a folder.

    Raises:
        OSError: The folder is missing, a link, of somebody else, or open to others.
    """
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(f"{folder} is not a private folder of this user")
