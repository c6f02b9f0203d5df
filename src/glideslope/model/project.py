"""Projects inside a workspace, and the interpreters they run on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from glideslope.model.ids import EnvironmentKey
from glideslope.model.paths import is_beneath


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A folder with its own project file, or the whole workspace where there is none."""

    name: str  # "." for the root, otherwise the folder
    root: str  # relative to the workspace root, "" for the root itself
    toolchain: str

    def holds(self, path: str) -> bool:
        """Whether a path lies in the project's folder (nested projects not excluded)."""
        return is_beneath(path, self.root)


def nearest_project(projects: tuple[Project, ...], path: str) -> Project | None:
    """The project a path belongs to: the deepest that holds it."""
    holding = [project for project in projects if project.holds(path)]
    return max(holding, key=lambda project: len(project.root), default=None)


UNKNOWN_KEY = EnvironmentKey("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """The project's own Python, as found; never installed into."""

    executable: str  # host path; opaque above the adapters
    prefix: str  # host path of the environment it belongs to
    version: tuple[int, int, int]
    implementation: str
    build: str = ""  # what it says of its own making: compiler, platform, special builds
    how: str  # argument, setting, .venv, workspace .venv, uv, poetry, hatch, VIRTUAL_ENV
    distributions: Mapping[str, str] = field(default_factory=dict)  # canonical name -> version
    key: EnvironmentKey = UNKNOWN_KEY  # changes whenever an installed thing does

    def has(self, distribution: str) -> bool:
        """Whether a distribution is installed, by canonical name."""
        return distribution in self.distributions
