"""What is left of a run, seen from outside: processes by a mark in their environment, and mounts."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One process."""

    pid: int
    argv: tuple[str, ...]


def marked_processes(marks: Collection[bytes]) -> tuple[Seen, ...]:
    """Every process whose environment holds one of the marks, this one excepted.

    Args:
        marks: Byte strings to look for; a process that became a zombie has no environment left.

    Returns:
        Processes, sorted by id.
    """
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                environment = file.read()
            with open(f"/proc/{name}/cmdline", "rb") as file:
                argv = tuple(os.fsdecode(part) for part in file.read().split(b"\0") if part)
        except OSError:
            continue
        if any(mark in environment for mark in marks):
            found.append(Seen(pid=int(name), argv=argv))
    return tuple(sorted(found, key=lambda seen: seen.pid))


def mount_table() -> frozenset[str]:
    """The mounts of this process's namespace, as the kernel lists them."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        return frozenset(file)
