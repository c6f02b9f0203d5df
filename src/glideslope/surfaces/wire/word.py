"""Words that callers give: policies, rungs, profiles. The same on every surface, and never a default."""

from __future__ import annotations

import difflib

from glideslope.errors import InvalidInput
from glideslope.model.rung import Rung, VerifyPolicy, parse_policy, parse_rung
from glideslope.model.settings import SandboxProfile

# Names from before; read until version 1.0, never shown.
LEGACY_RUNGS = {
    "l0": Rung.DIAGNOSE,
    "roslyn_file": Rung.DIAGNOSE,
    "l1": Rung.COMPILE,
    "roslyn_project": Rung.COMPILE,
    "l2": Rung.BUILD,
    "build_project": Rung.BUILD,
    "l3": Rung.SCOPED,
    "test_filtered": Rung.SCOPED,
    "l4": Rung.FULL,
    "test_full": Rung.FULL,
    "integration": Rung.FULL,
}


def read_policy(text: str | None) -> VerifyPolicy | None:
    """The policy that was named, None where none was.

    Raises:
        InvalidInput: An unknown one.
    """
    return None if text is None else parse_policy(text)


def read_rung(text: str | None) -> tuple[Rung | None, str | None]:
    """The rung that was named, and a warning where that was by an old name.

    Raises:
        InvalidInput: An unknown one.
    """
    if text is None:
        return None, None
    legacy = LEGACY_RUNGS.get(text.lower())
    if legacy is None:
        return parse_rung(text), None
    return legacy, f"{text!r} is an old name, read until version 1.0: write {legacy}"


def read_profile(text: str | None) -> SandboxProfile | None:
    """The sandbox profile that was named, None where none was.

    Raises:
        InvalidInput: An unknown one.
    """
    if text is None:
        return None
    if text not in set(SandboxProfile):
        near = difflib.get_close_matches(text, list(SandboxProfile), n=1)
        hint = f"did you mean {near[0]}?" if near else f"use one of {', '.join(SandboxProfile)}"
        raise InvalidInput(f"unknown sandbox profile {text!r}: {hint}", field="sandbox", value=text)
    return SandboxProfile(text)
