"""Where a build finds its backend: in the project's interpreter, else in an environment of its own.

Such an environment is named by a digest of what the build asks for and of the interpreter. Where there
is none yet, one task fills it; it alone may use the package index. Requirements are names with
versions; one that says where to fetch something is refused, because fetching it could run it.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Generator, Mapping
from dataclasses import dataclass

from glideslope.model.ids import LogRef
from glideslope.model.project import Interpreter
from glideslope.ports.backends import BACKEND_ARGUMENT
from glideslope.ports.toolchain import Command, Context, Output
from glideslope.toolchains.python.checks import infrastructure_trouble, stderr_tail
from glideslope.toolchains.python.layout import table, texts
from glideslope.toolchains.python.package import Declaration

KIND = "build.backend"

_DISTRIBUTIONS = {
    "setuptools": "setuptools",
    "hatchling": "hatchling",
    "flit_core": "flit-core",
    "poetry": "poetry-core",
    "pdm": "pdm-backend",
    "uv_build": "uv-build",
    "maturin": "maturin",
    "mesonpy": "meson-python",
    "scikit_build_core": "scikit-build-core",
}
_BUILDS_ALONE = "70.1"  # from here on setuptools makes wheels without the wheel distribution
_NAMED = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*([^;]*)(;.*)?")
_REQUIREMENT = re.compile(
    r"\s*(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*"
    r"(?:\[[A-Za-z0-9._,\s-]*\])?\s*(?P<versions>[<>=!~(][A-Za-z0-9.*+!<>=~,()\s_-]*)?\s*"
    r"(?:;[A-Za-z0-9._<>=!~()'\"\s,+-]*)?\Z"
)
_LONGEST = 500  # characters of one requirement
_FILES = (".whl", ".zip", ".gz", ".bz2", ".xz", ".tgz", ".tar", ".txt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a build environment is made of."""

    requirements: tuple[str, ...]
    digest: str
    refused: str = ""  # the first requirement that is more than a name with versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """Where the build of one tree finds its backend."""

    digest: str = ""  # of a build environment; empty: in the interpreter itself
    absent: str = ""  # why there is none; empty where there is
    next: str | None = None
    log_ref: LogRef | None = None


BackendScript = Generator[tuple[Command, ...], tuple[Output, ...], Backend]
"""Part of a script: yields commands, is sent outputs, returns where the backend is."""


def find_backend(context: Context, declaration: Declaration) -> BackendScript:
    """Makes sure that a build has its backend, as far as that is possible and allowed.

    Args:
        context: What is verified.
        declaration: Of the project in the tree to be built.

    Returns:
        Where the backend is, or why there is none and what to do about it.
    """
    absent = missing_backend(context.interpreter, declaration)
    if absent is None:
        return Backend()
    recipe = recipe_of(declaration, context.interpreter)
    install = shlex.join((context.interpreter.executable, "-m", "pip", "install", *recipe.requirements))
    if recipe.refused:
        words = f"{recipe.refused!r} of build-system.requires is more than a name with versions"
        return Backend(absent=f"{words} and is not fetched", next=install)
    if recipe.digest in context.backends:
        return Backend(digest=recipe.digest)
    if not context.index_allowed:
        return Backend(absent=f"{absent} is not installed here, and allow_index is off", next=install)
    (output,) = yield (_fill_command(context, recipe),)
    message = _read_fill(output)
    if message:
        words = f"{absent} is not installed here and cannot be fetched: {message}"
        return Backend(absent=words, next=install, log_ref=output.log_ref)
    return Backend(digest=recipe.digest)


def recipe_of(declaration: Declaration, interpreter: Interpreter) -> Recipe:
    """What the build environment of a project holds, by its declaration alone."""
    wanted = list(declaration.requires)
    module = _module(declaration)
    if module == "setuptools" and not wanted:
        wanted = ["setuptools"]
    read = {text: _REQUIREMENT.match(text) if len(text) <= _LONGEST else None for text in wanted}
    refused = [
        requirement
        for requirement, found in read.items()
        if found is None or found["name"].lower().endswith(_FILES)
    ]
    names = {_canonical(found["name"]): found["versions"] for found in read.values() if found}
    if module == "setuptools" and names.get("setuptools") and "wheel" not in names:
        wanted.append("wheel")  # releases before 70.1 need it, and a bound may lead to one
    told = [sorted(wanted), interpreter.implementation, interpreter.version, interpreter.build]
    return Recipe(
        requirements=tuple(wanted),
        digest=hashlib.sha256(json.dumps(told).encode("utf-8", "surrogateescape")).hexdigest()[:24],
        refused=refused[0] if refused else "",
    )


def missing_backend(interpreter: Interpreter, declaration: Declaration) -> str | None:
    """The first distribution a build needs that is not installed; None where all are."""
    module = _module(declaration)
    in_tree = bool(texts(table(declaration.pyproject, "build-system").get("backend-path")))
    needed = [] if in_tree else [(_DISTRIBUTIONS.get(module, module.replace("_", "-")), "")]
    for requirement in declaration.requires:
        matched = _NAMED.match(requirement)
        if matched and not matched[3]:  # a marker may rule it out here
            needed.append((_canonical(matched[1]), matched[2]))
    for name, specifier in needed:
        if not interpreter.has(name) or _is_older(interpreter.distributions[name], specifier):
            return name
    setuptools = interpreter.distributions.get("setuptools", "")
    if module == "setuptools" and _is_older(setuptools, f">={_BUILDS_ALONE}"):
        return None if interpreter.has("wheel") else "wheel"
    return None


def progress(line: bytes) -> str | None:
    """A sentence about a report line of a filling, or None."""
    said = _record(line).get("say")
    return said if isinstance(said, str) else None


def _fill_command(context: Context, recipe: Recipe) -> Command:
    boot = f"{context.tools.worker.rstrip('/')}/boot.py"
    found = context.interpreter
    # Without what is installed there: its path files may lead into the project.
    program = (found.executable, "-I", "-S", boot, "backend_fill", "{report_fd}", found.prefix)
    return Command(
        kind=KIND,
        argv=(*program, BACKEND_ARGUMENT, *recipe.requirements),
        cwd="",
        label=f"build environment: {', '.join(recipe.requirements)}",
        report=True,
        index=True,
        backend=recipe.digest,
    )


def _read_fill(output: Output) -> str:
    """Why a build environment could not be filled; empty where it was."""
    trouble = infrastructure_trouble(output)
    if trouble is not None:
        return trouble.message
    record = _record(output.report[-1]) if output.report else {}
    if record.get("ok") is True and output.code == 0:
        return ""
    message = record.get("message")
    if isinstance(message, str) and message:
        return message.removeprefix("ERROR: ")
    return (stderr_tail(output).splitlines() or [f"it ended with status {output.code}"])[-1]


def _record(line: bytes) -> Mapping[str, object]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _module(declaration: Declaration) -> str:
    return declaration.backend.partition(":")[0].partition(".")[0]


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_older(version: str, specifier: str) -> bool:
    """Whether a version is below a `>=` of a specifier; other clauses are left to the backend."""
    wanted = re.search(r">=\s*(\d+(?:\.\d+)*)", specifier)
    return wanted is not None and _numbers(version) < _numbers(wanted[1])


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version.partition("+")[0])[:3]]
