"""`glideslope status --json` with the daemon up: one question, one line, nothing loaded for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from glideslope_fast import VERSION
from glideslope_fast.place import socket_path, state_dir

ANSWER_S = 30.0


def try_status(arguments: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Prints the status if that can be done at once.

    Args:
        arguments: Of the command line, without the program's name.
        environ: Environment variables.

    Returns:
        Whether it was printed. If not, nothing was: these are other arguments, no daemon is up, it is
        of another version, or it has something to say that the full command line says better.
    """
    if list(arguments) != ["status", "--json"]:
        return False
    try:
        envelope = _ask(_caller(environ), environ)
    except (OSError, ValueError):
        return False
    return envelope is not None and _printed(envelope)


def _printed(envelope: str) -> bool:
    """Whether it could be written; the full command line says why it could not."""
    try:
        sys.stdout.write(envelope + "\n")
        sys.stdout.flush()
    except OSError:
        return False
    return True


def _ask(caller: dict[str, object], environ: Mapping[str, str]) -> str | None:
    from glideslope_fast.talk import Line

    line = Line.open(socket_path(state_dir(environ), environ), timeout_s=ANSWER_S)
    try:
        if line.greet().get("version") != VERSION:
            return None
        line.send({"id": 1, "action": "status", "input": {"caller": caller}, "form": "envelope"})
        found = line.receive().get("envelope")
        return found if isinstance(found, str) else None
    finally:
        line.close()


def _caller(environ: Mapping[str, str]) -> dict[str, object]:
    """What the daemon must know of this process; ValueError for what needs an escape."""
    variables = [[name, value] for name, value in sorted(environ.items()) if name.startswith("GLIDESLOPE__")]
    caller: dict[str, object] = {
        "folder": os.path.realpath(os.getcwd()),
        "virtual_env": environ.get("VIRTUAL_ENV") or None,
        "variables": variables,
    }
    text = repr(caller).encode("ascii", "backslashreplace").decode("ascii")
    if "\\x10" in text or "\\udc" in text:
        raise ValueError("a name here is not plain text")
    return caller
