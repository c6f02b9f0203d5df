"""Where a build finds its backend, and what is asked for where it is not installed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.unit.toolchains.python.test_build import BASE, NOW, TOML, WHEEL, Answer, imports, reported, run
from tests.unit.toolchains.python.world import TextTree, context_of, interpreter, project, shown

from glideslope.model.project import Interpreter
from glideslope.model.result import RungState
from glideslope.model.rung import VerifyPolicy
from glideslope.ports.toolchain import Command, Context, Output, Side
from glideslope.toolchains.python import PythonToolchain
from glideslope.toolchains.python.backend import Recipe, recipe_of
from glideslope.toolchains.python.package import Declaration

CHANGED = {**BASE, "pyproject.toml": TOML.replace('"1.0"', '"1.1"')}


def recipe(requires: str, *, backend: str = "hatchling.build", found: Interpreter | None = None) -> Recipe:
    toml = f'[build-system]\nrequires = {requires}\nbuild-backend = "{backend}"\n'
    return recipe_of(Declaration.of(TextTree({"pyproject.toml": toml}), project()), found or interpreter())


def open_to_index(context: Context, *there: str) -> Context:
    return replace(context, index_allowed=True, backends=frozenset(there))


def filled(command: Command) -> Output:
    if command.kind == "build.backend":
        return reported(command, {"say": "Collecting hatchling"}, {"ok": True})
    return imports()(command)


def unfilled(message: str) -> Answer:
    def answer(command: Command) -> Output:
        if command.kind == "build.backend":
            return reported(command, {"ok": False, "message": message}, code=1)
        return imports()(command)

    return answer


def test_a_missing_backend_is_fetched_by_one_task_and_used_by_the_build() -> None:
    end, asked = run(open_to_index(context_of(CHANGED, BASE)), filled)
    assert end.state is RungState.PASS
    fill, wheel, on_base = asked
    assert (fill.kind, fill.index, fill.report, fill.cwd) == ("build.backend", True, True, "")
    assert fill.argv[1:] == (
        "-I", "-S", "/worker/boot.py", "backend_fill", "{report_fd}", "/env", "{backend}", "hatchling>=1.5",
    )  # fmt: skip
    assert wheel.argv[1:] == (
        "-I", "-S", "/worker/boot.py", "pep517_build", "{report_fd}", "--in", "{backend}", "wheel", "hatchling.build",
    )  # fmt: skip
    assert [command.index for command in (wheel, on_base)] == [False, False]
    assert fill.backend == wheel.backend == on_base.backend == recipe('["hatchling>=1.5"]').digest


def test_one_that_is_there_is_used_without_the_index() -> None:
    there = recipe('["hatchling>=1.5"]').digest
    context = replace(context_of(CHANGED, BASE), backends=frozenset([there]))  # the index is not allowed
    end, asked = run(context, filled)
    assert end.state is RungState.PASS
    assert [(command.label, command.backend) for command in asked] == [
        ("wheel", there),
        ("wheel on the base", there),
    ]


def test_without_leave_for_the_index_nothing_is_fetched() -> None:
    end, asked = run(context_of(CHANGED, BASE), filled)
    assert (asked, end.state, end.reason) == ([], RungState.INCONCLUSIVE, "backend_unavailable")
    assert "allow_index" in end.summary
    assert end.next == "/env/bin/python -m pip install 'hatchling>=1.5'"


def test_what_cannot_be_fetched_says_why_and_what_to_do() -> None:
    answer = unfilled("ERROR: No matching distribution found for hatchling")
    end, _ = run(open_to_index(context_of(CHANGED, BASE)), answer)
    assert (end.state, end.reason) == (RungState.INCONCLUSIVE, "backend_unavailable")
    assert "cannot be fetched: No matching distribution found for hatchling" in end.summary
    assert end.next == "/env/bin/python -m pip install 'hatchling>=1.5'"


@pytest.mark.parametrize("policy", [VerifyPolicy.STRICT, VerifyPolicy.CI_PARITY])
def test_an_unchanged_build_passes_without_its_backend_only_where_there_is_a_base(
    policy: VerifyPolicy,
) -> None:
    answer = unfilled("no route")
    end, _ = run(open_to_index(context_of(NOW, BASE, policy=policy)), answer)
    assert (end.state, end.reason) == (RungState.PASS, "")
    assert "no wheel built: hatchling is not installed here and cannot be fetched: no route" in end.summary
    end, _ = run(open_to_index(context_of(NOW, policy=policy)), answer)
    assert (end.state, end.reason) == (RungState.INCONCLUSIVE, "backend_unavailable")
    end, asked = run(open_to_index(context_of(NOW)), answer)
    assert (end.state, [command.label for command in asked]) == (RungState.PASS, ["import smoke"])


@pytest.mark.parametrize(
    "ending",
    [
        {"outcome": "timed_out", "code": None, "limit": "wall"},
        {"outcome": "signalled", "code": None, "signal": 9},
        {"code": 0},
        {"code": 3},
    ],
)
def test_a_filling_that_does_not_report_its_success_has_none(ending: dict[str, object]) -> None:
    def answer(command: Command) -> Output:
        return reported(command, **ending) if command.kind == "build.backend" else imports()(command)

    end, _ = run(open_to_index(context_of(CHANGED, BASE)), answer)
    assert (end.state, end.reason) == (RungState.INCONCLUSIVE, "backend_unavailable")


@pytest.mark.parametrize(
    "requirement",
    [
        "hatchling @ https://example.org/hatchling.whl",
        "git+https://example.org/x#egg=hatchling",
        "./backend",
        "../backend",
        "/srv/hatchling",
        "hatchling.whl",
        "backend.tar.gz",
        "--index-url=https://example.org",
        "-r requirements.txt",
        "hatchling --pre",
        "hatchling\nflit",
        "hatchling>=1 @ file:///x",
        "hatchling" + " " * 1000,
    ],
)
def test_a_requirement_that_says_where_to_fetch_is_refused(requirement: str) -> None:
    toml = TOML.replace('["hatchling>=1.5"]', json.dumps(["hatchling>=1.5", requirement])).replace(
        "1.0", "1.1"
    )
    end, asked = run(open_to_index(context_of({**BASE, "pyproject.toml": toml}, BASE)), filled)
    assert [command.kind for command in asked if command.index] == []
    assert (end.state, end.reason) == (RungState.INCONCLUSIVE, "backend_unavailable")
    assert "is more than a name with versions" in end.summary


@pytest.mark.parametrize(
    "requirement",
    [
        "hatchling",
        " hatch_vcs >= 0.3 , < 2",
        "setuptools_scm[toml]>=8",
        "cython!=3.0.*,~=3.0",
        "numpy (>=1.2)",
        "tomli>=1; python_version < '3.11'",
        'colorama; sys_platform == "win32" and (extra or 1)',
        "x==1!2.0+local.1",
    ],
)
def test_names_with_versions_and_markers_are_not_refused(requirement: str) -> None:
    found = recipe(json.dumps([requirement]))
    assert (found.refused, found.requirements) == ("", (requirement,))


def test_an_environment_is_told_apart_by_what_decides_its_content() -> None:
    one = recipe('["hatchling", "hatch-vcs"]')
    assert recipe('["hatch-vcs", "hatchling"]').digest == one.digest
    others = [
        recipe('["hatchling", "hatch-vcs>1"]'),
        recipe('["hatchling", "hatch-vcs"]', found=interpreter(version=(3, 9))),
        recipe('["hatchling", "hatch-vcs"]', found=replace(interpreter(), implementation="pypy")),
        recipe('["hatchling", "hatch-vcs"]', found=replace(interpreter(), build="free threading")),
    ]
    assert len({one.digest, *(other.digest for other in others)}) == 5


def test_setuptools_gets_what_older_ones_need() -> None:
    backend = "setuptools.build_meta"
    assert recipe('["setuptools"]', backend=backend).requirements == ("setuptools",)
    assert recipe('["setuptools<60"]', backend=backend).requirements == ("setuptools<60", "wheel")
    assert recipe('["setuptools<60", "Wheel"]', backend=backend).requirements == ("setuptools<60", "Wheel")
    bare = Declaration.of(TextTree({"setup.py": "import setuptools"}), project())
    assert recipe_of(bare, interpreter()).requirements == ("setuptools",)


def test_what_a_backend_asks_for_besides_is_named_and_never_fetched() -> None:
    def answer(command: Command) -> Output:
        if "pep517_build" in command.argv:
            return reported(command, {"ok": False, "missing": ["ninja>=1.8"]})
        return filled(command)

    end, asked = run(open_to_index(context_of(CHANGED, BASE)), answer)
    assert (end.state, end.reason) == (RungState.INCONCLUSIVE, "backend_unavailable")
    assert end.next == "the backend also asks for ninja>=1.8: add it to build-system.requires"
    assert [command.kind for command in asked] == ["build.backend", "python.build"]


def test_a_changed_backend_is_fetched_for_both_sides_and_each_is_built_with_its_own() -> None:
    base = {**BASE, "pyproject.toml": TOML.replace("hatchling>=1.5", "hatchling>=1.4")}

    def answer(command: Command) -> Output:
        if "pep517_build" in command.argv:
            return reported(command, {"ok": False, "type": "ValueError", "message": "bad"})
        return filled(command)

    end, asked = run(open_to_index(context_of(CHANGED, base)), answer)
    assert [command.argv[-1] for command in asked[:2]] == ["hatchling>=1.5", "hatchling>=1.4"]
    assert [(command.side, command.backend) for command in asked[2:]] == [
        (Side.NOW, recipe('["hatchling>=1.5"]').digest),
        (Side.BASE, recipe('["hatchling>=1.4"]').digest),
    ]
    assert (end.state, [found[3] for found in shown(end.diagnostics)]) == (RungState.PASS, ["known"])


def test_a_failing_build_is_red_where_the_base_cannot_be_built() -> None:
    base = {**BASE, "pyproject.toml": TOML.replace("hatchling>=1.5", "hatchling @ https://example.org/h.whl")}

    def answer(command: Command) -> Output:
        if "pep517_build" in command.argv:
            return reported(command, {"ok": False, "type": "ValueError", "message": "bad"})
        return filled(command)

    end, asked = run(open_to_index(context_of(CHANGED, base)), answer)
    assert [command.side for command in asked] == [Side.NOW, Side.NOW]
    assert end.state is RungState.FAIL


def test_files_that_left_the_wheel_are_told_unless_their_source_is_gone() -> None:
    base = {**BASE, "src/shop/data.json": "{}", "src/shop/gone.json": "{}"}
    now = {**CHANGED, "src/shop/data.json": "{}"}
    there = ["shop/data.json", "shop/gone.json", "shop/made.txt"]

    def answer(command: Command) -> Output:
        own = [
            f"shop-{'1.0' if command.side is Side.BASE else '1.1'}.dist-info/{file}"
            for file in ("RECORD", "METADATA")
        ]
        files = [*WHEEL, *own, *(there if command.side is Side.BASE else [])]
        return reported(command, {"ok": True, "files": files})

    end, _ = run(context_of(now, base, installed=interpreter(versions={"hatchling": "1.9"})), answer)
    assert end.state is RungState.PASS
    assert [(found.code, found.message.split()[0], str(found.state)) for found in end.diagnostics] == [
        ("gone_from_wheel", "shop/data.json", "advisory"),
        ("gone_from_wheel", "shop/made.txt", "advisory"),
    ]


def test_a_filling_says_what_it_is_at() -> None:
    command = Command(kind="build.backend", argv=("x",), cwd="")
    progress = PythonToolchain().progress
    assert progress(command, b'{"say": "Collecting hatchling"}') == "Collecting hatchling"
    assert (progress(command, b'{"ok": true}'), progress(command, b"[]"), progress(command, b"{")) == (
        None, None, None,
    )  # fmt: skip
