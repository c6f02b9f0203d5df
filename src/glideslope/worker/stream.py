"""What the programs that run tests share: the report stream, the chosen files, the disguise.

Loaded by path and under no name, so that a project's own modules and tools that walk
`sys.modules` never meet it.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import resource
import sys
import types
from typing import Optional

MESSAGE_CHARS = 400
DETAIL_CHARS = 6000
RENDERED = 50  # failures whose text is sent; of the others the outcome and the place are enough


class Reporter:
    """Writes records to a descriptor, as long as it is still ours and we are who opened it.

    Tests fork, close descriptors they never opened, and replace functions of `os` and `time`; so
    everything used here is bound once, and identity is checked before each write.
    """

    def __init__(self, fd: int) -> None:
        self._write = os.write
        self._fstat = os.fstat
        self._getpid = os.getpid
        self._encode = json.JSONEncoder(separators=(",", ":")).encode
        self._pid = os.getpid()
        self._fd = _out_of_the_way(fd)
        self._identity = self._identify()

    def _identify(self) -> Optional[tuple[int, int]]:
        try:
            found = self._fstat(self._fd)
        except OSError:
            return None
        return (found.st_dev, found.st_ino)

    def emit(self, kind: str, **fields: object) -> None:
        """Sends one record; silently nothing where the descriptor is gone or this is a fork."""
        if self._fd < 0 or self._getpid() != self._pid or self._identify() != self._identity:
            return
        data = (self._encode(dict(fields, kind=kind)) + "\n").encode("ascii")
        try:
            while data:
                data = data[self._write(self._fd, data) :]
        except OSError:
            self._fd = -1  # the reader is gone: the run goes on, its ending will be missed


def _out_of_the_way(fd: int) -> int:
    """Moves a descriptor to a high number, closed on exec, so low numbers are as without us."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    high = 1000 if limit == resource.RLIM_INFINITY or limit > 1024 else max(limit - 16, 3)
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, high)
    os.close(fd)
    return moved


def read_selection() -> tuple[set[str], set[str]]:
    """Takes the chosen files from standard input, and leaves it empty as it would have been.

    Returns:
        Two sets of absolute paths: the files, and every folder above one of them.
    """
    data = b""
    while True:
        block = os.read(0, 1 << 16)
        if not block:
            break
        data += block
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    files = {os.path.abspath(os.fsdecode(line)) for line in data.split(b"\0") if line}
    folders = set()
    for path in files:
        folder = os.path.dirname(path)
        while folder not in folders:
            folders.add(folder)
            folder = os.path.dirname(folder)
    return files, folders


def shortened(text: str, limit: int) -> str:
    """A text, or as much of it as the stream should carry."""
    return text if len(text) <= limit else text[:limit] + " ..."


def become(module: str) -> None:
    """Makes this process look like `python -m PACKAGE`: path, first argument and main module.

    Args:
        module: The dotted name of a package's `__main__`.
    """
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        sys.path[0] = os.getcwd()
    spec = importlib.util.find_spec(module)
    facade = types.ModuleType("__main__")
    facade.__spec__ = spec
    facade.__file__ = spec.origin if spec is not None and spec.origin else module
    facade.__package__ = module.rpartition(".")[0]
    # The former main module stays alive through its functions.
    sys.modules["__main__"] = facade
    sys.argv[0] = facade.__file__
