"""Settings as they hold for one workspace and one caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from glideslope.model.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings:
    """Merged settings, and a digest of all that a pass may depend on."""

    settings: Settings
    digest: str
    warnings: tuple[str, ...] = ()


class SettingsSource(Protocol):
    """Reads and merges the layers."""

    def load(self, *, workspace_root: str | None, variables: Mapping[str, str]) -> LoadedSettings:
        """Merges defaults, user file, repository file and the caller's variables.

        Raises:
            InvalidInput: An unknown key or a wrong value, with file, line and a suggestion.
        """
        ...
