"""Rungs of the verification ladder, policies, and the plan for one change."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from glideslope.errors import InvalidInput


class Rung(StrEnum):
    """The five rungs, cheapest first."""

    DIAGNOSE = "diagnose.files"
    COMPILE = "compile.project"
    BUILD = "build.affected"
    SCOPED = "test.scoped"
    FULL = "test.full"

    @property
    def height(self) -> int:
        """Position on the ladder, 0 is the cheapest."""
        return RUNGS.index(self)


RUNGS: tuple[Rung, ...] = tuple(Rung)


class VerifyPolicy(StrEnum):
    """How far a verify must climb before it may say green."""

    MINIMAL = "minimal"
    STANDARD = "standard"
    STRICT = "strict"
    CI_PARITY = "ci_parity"


POLICY_ALIASES = {"quick": VerifyPolicy.MINIMAL, "ci": VerifyPolicy.CI_PARITY, "full": VerifyPolicy.CI_PARITY}


def parse_policy(text: str) -> VerifyPolicy:
    """Reads a policy by name or alias.

    Raises:
        InvalidInput: Any other word; there is no default to fall back to.
    """
    try:
        return POLICY_ALIASES.get(text) or VerifyPolicy(text)
    except ValueError:
        names = ", ".join([*VerifyPolicy, *POLICY_ALIASES])
        raise InvalidInput(
            f"unknown policy {text!r}: use one of {names}", field="policy", value=text
        ) from None


def parse_rung(text: str) -> Rung:
    """Reads a rung by its canonical id.

    Raises:
        InvalidInput: Any other word.
    """
    try:
        return Rung(text)
    except ValueError:
        raise InvalidInput(
            f"unknown rung {text!r}: use one of {', '.join(Rung)}", field="rung", value=text
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRung:
    """One rung of a plan, or why it does not run."""

    rung: Rung
    skipped: str | None = None  # reason, shown to the user
    not_permitted: str | None = None  # reason


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderPlan:
    """What a policy asks for, for one change."""

    policy: VerifyPolicy
    rungs: tuple[PlannedRung, ...]  # cheapest first; rungs not in the plan are not required

    @property
    def required(self) -> Rung | None:
        """The last rung of the plan that is not skipped; None when none is left."""
        return next((planned.rung for planned in reversed(self.rungs) if planned.skipped is None), None)
