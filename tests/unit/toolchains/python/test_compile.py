"""`compile.project`: the reverse import closure still fits together."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.unit.toolchains.python.world import clean, context_of, interpreter, play, said, shown

from glideslope.model.result import FindingState, RungState
from glideslope.model.rung import VerifyPolicy
from glideslope.ports.toolchain import Command, Context, Output, ProjectRung, Side
from glideslope.toolchains.python.compile import compile_project
from glideslope.toolchains.python.diagnose import diagnose
from glideslope.toolchains.python.module import Memo

BASE = {
    "p/__init__.py": "",
    "p/a.py": "x = 1\n",
    "p/b.py": "from p import a\n",
    "p/c.py": "from p import b\n",
}
NOW = {**BASE, "p/a.py": "x = 2\n"}
MYPY = {"mypy.ini": "[mypy]\n"}


def run(
    context: Context, answer: Callable[[Command], Output] = clean, memo: Memo | None = None
) -> tuple[ProjectRung, list[Command]]:
    return play(compile_project(context, memo or Memo()), answer)


def mypy_says(*lines: str) -> Callable[[Command], Output]:
    def answer(command: Command) -> Output:
        if command.side is Side.BASE:
            return said(command)
        return said(command, "\n".join(lines).encode(), code=1 if lines else 0)

    return answer


def test_everything_that_imports_the_change_is_checked_by_ty() -> None:
    end, asked = run(context_of(NOW, BASE))
    assert (end.state, end.summary) == (RungState.PASS, "3 modules, 0 new findings")
    assert [(command.kind, command.label, command.argv[-3:]) for command in asked] == [
        ("python.compile", "ty", ("p/a.py", "p/b.py", "p/c.py"))
    ]


def test_ty_is_not_asked_again_what_it_answered_at_the_first_rung() -> None:
    base = {path: text for path, text in BASE.items() if path != "p/c.py"}
    context, memo = context_of({**base, "p/a.py": "x = 2\n"}, base), Memo()
    play(diagnose(context, memo))
    end, asked = run(context, memo=memo)
    assert (end.state, asked) == (RungState.PASS, [])


def test_a_dependent_in_another_project_is_checked_too() -> None:
    base = {"one/a/__init__.py": "", "two/b.py": "import a\n"}
    _, asked = run(context_of({**base, "one/a/__init__.py": "x = 1\n"}, base, roots=("one", "two")))
    assert asked[0].argv[-2:] == ("a/__init__.py", "../two/b.py")
    assert asked[0].cwd == "one"


def test_a_dependent_that_does_not_compile_is_red_without_a_process() -> None:
    end, asked = run(context_of({**NOW, "p/c.py": "from p import b\nreturn\n"}, BASE))
    assert (end.state, shown(end.diagnostics), asked) == (
        RungState.FAIL, [("p/c.py", 2, "syntax_error", "new")], [],
    )  # fmt: skip


def test_importers_of_deleted_and_renamed_modules_are_red() -> None:
    for now in ({"p/other.py": BASE["p/a.py"]}, {}):
        files = {**{path: text for path, text in BASE.items() if path != "p/a.py"}, **now}
        end, asked = run(context_of(files, BASE))
        assert (end.state, shown(end.diagnostics), asked) == (
            RungState.FAIL, [("p/b.py", 1, "unresolved_import", "new")], [],
        )  # fmt: skip


def test_an_import_of_a_module_that_only_git_hides_says_what_helps() -> None:
    end, _ = run(context_of({**BASE, "p/b.py": "from p.version import V\n"}, BASE))
    assert [found.message for found in end.diagnostics] == [
        "module p.version is not there; if git ignores it, name it in carry_files"
    ]


def test_an_import_of_ours_that_was_broken_before_is_known() -> None:
    base = {**BASE, "p/a.py": "import p.nothere\n"}
    end, _ = run(context_of({**base, "p/a.py": "import p.nothere\nx = 2\n"}, base))
    assert (end.state, shown(end.diagnostics)) == (
        RungState.PASS,
        [("p/a.py", 1, "unresolved_import", "known")],
    )
    end, _ = run(context_of(base))
    assert end.state is RungState.PASS


def test_a_new_cycle_is_advice_and_an_old_one_is_nothing() -> None:
    end, _ = run(context_of({**BASE, "p/a.py": "from p import c\n"}, BASE))
    assert (end.state, shown(end.diagnostics)) == (
        RungState.PASS,
        [("p/a.py", 1, "import_cycle", "advisory")],
    )
    for late in ("def f():\n    from p import c\n", "if TYPE_CHECKING:\n    from p import c\n"):
        end, _ = run(context_of({**BASE, "p/a.py": late}, BASE))
        assert end.diagnostics == ()
    old = {**BASE, "p/a.py": "from p import c\n"}
    end, _ = run(context_of({**old, "p/a.py": "from p import c\nimport os\n"}, old))
    assert end.diagnostics == ()


def test_the_repositorys_own_checker_gates() -> None:
    context = context_of({**MYPY, **NOW}, {**MYPY, **BASE}, installed=interpreter("mypy"))
    end, asked = run(
        context, mypy_says("p/b.py:1:8: error: Bad thing  [attr-defined]", "p/b.py:1: note: more")
    )
    assert asked[0].argv[:3] == ("/env/bin/python", "-m", "mypy")
    assert "--cache-dir=/dev/null" in asked[0].argv
    assert (end.state, shown(end.diagnostics)) == (RungState.FAIL, [("p/b.py", 1, "attr-defined", "new")])
    (found,) = end.diagnostics
    assert (found.column, found.message, found.source, found.configured) == (8, "Bad thing", "mypy", True)


def test_known_findings_of_a_configured_checker_are_marked_for_the_stricter_policies() -> None:
    context = context_of({**MYPY, **NOW}, installed=interpreter("mypy"), policy=VerifyPolicy.STRICT)
    end, _ = run(context, mypy_says("p/b.py:1: error: Bad  [x]"))
    (found,) = end.diagnostics
    assert (end.state, found.state, found.configured) == (RungState.PASS, FindingState.KNOWN, True)


def test_mypy_checks_what_its_configuration_names_and_no_tests_otherwise() -> None:
    files = {
        **NOW,
        "tests/test_p.py": "from p import a\n",
        "setup.py": "import p.a\n",
        "p/skip.py": "from p import a\n",
    }
    config = {"pyproject.toml": "[tool.mypy]\nexclude = ['skip']\n"}
    _, asked = run(
        context_of({**config, **files}, {**config, **BASE}, installed=interpreter("mypy")), mypy_says()
    )
    assert asked[0].argv[asked[0].argv.index("--") + 1 :] == ("p/a.py", "p/b.py", "p/c.py")
    config = {"mypy.ini": "[mypy]\nfiles = p\n"}
    _, asked = run(
        context_of({**config, **files}, {**config, **BASE}, installed=interpreter("mypy")), mypy_says()
    )
    assert "--" not in asked[0].argv


@pytest.mark.parametrize("policy", [VerifyPolicy.STRICT, VerifyPolicy.CI_PARITY])
def test_a_configured_checker_that_is_not_installed_leaves_strict_policies_without_an_answer(
    policy: VerifyPolicy,
) -> None:
    context = context_of({**MYPY, **NOW}, {**MYPY, **BASE}, policy=policy)
    end, asked = run(context)
    assert (end.state, end.reason, asked) == (RungState.INCONCLUSIVE, "tool_missing", [])
    assert end.next == "/env/bin/python -m pip install mypy"
    spaced = replace(context, interpreter=replace(context.interpreter, executable="/my env/python"))
    assert run(spaced)[0].next == "'/my env/python' -m pip install mypy"


def test_otherwise_ty_stands_in_and_it_is_said() -> None:
    record = {
        "check_name": "invalid-assignment",
        "description": "bad",
        "severity": "major",
        "location": {"path": "p/a.py", "positions": {"begin": {"line": 1, "column": 1}}},
    }

    def answer(command: Command) -> Output:
        records = [] if command.side is Side.BASE else [record]
        return said(command, json.dumps(records).encode(), code=len(records))

    end, _ = run(context_of({**MYPY, **NOW}, {**MYPY, **BASE}))
    assert (end.state, end.reason) == (RungState.PASS, "checker_missing")
    assert "mypy is configured, but not installed" in end.summary
    end, _ = run(context_of({**MYPY, **NOW}, {**MYPY, **BASE}), answer)
    assert (end.state, shown(end.diagnostics)) == (
        RungState.FAIL,
        [("p/a.py", 1, "invalid-assignment", "new")],
    )


def test_every_installed_checker_gates_where_two_are_configured() -> None:
    config = {**MYPY, "pyrightconfig.json": '{"include": ["p"], // comment\n "exclude": ["p/c.py"],}'}
    answer = {
        "generalDiagnostics": [
            {
                "file": "/ws/p/a.py",
                "severity": "error",
                "message": "bad",
                "rule": "reportX",
                "range": {"start": {"line": 0, "character": 4}, "end": {"line": 0, "character": 5}},
            },
            {"file": "/ws/p/a.py", "severity": "warning", "message": "hm", "range": {}},
        ]
    }

    def both(command: Command) -> Output:
        if "mypy" in command.label or command.side is Side.BASE:
            return said(command, b"" if "mypy" in command.label else b'{"generalDiagnostics": []}')
        return said(command, json.dumps(answer).encode(), code=1)

    context = context_of({**config, **NOW}, {**config, **BASE}, installed=interpreter("mypy", "pyright"))
    end, asked = run(context, both)
    assert [command.label for command in asked] == ["mypy", "pyright", "pyright on the base"]
    assert asked[1].argv[-2:] == ("p/a.py", "p/b.py")
    assert (end.state, shown(end.diagnostics)) == (
        RungState.FAIL, [("p/a.py", 0, "pyright", "advisory"), ("p/a.py", 1, "reportX", "new")],
    )  # fmt: skip


def test_a_pyright_that_cannot_fetch_itself_counts_as_missing() -> None:
    config = {"pyrightconfig.json": "{}"}
    context = context_of({**config, **NOW}, {**config, **BASE}, installed=interpreter("pyright"))
    end, _ = run(context, lambda command: said(command, code=1, stderr=b"urlopen error getaddrinfo failed"))
    assert (end.state, end.reason) == (RungState.PASS, "checker_missing")


def test_mypy_that_crashes_died_and_mypy_that_rejects_its_configuration_is_a_finding() -> None:
    context = context_of({**MYPY, **NOW}, {**MYPY, **BASE}, installed=interpreter("mypy"))
    end, _ = run(context, lambda command: said(command, code=2, stderr=b"INTERNAL ERROR\nTraceback"))
    assert end.state is RungState.DIED
    end, _ = run(context, lambda command: said(command, code=2, stderr=b"mypy.ini: bad option"))
    assert (end.state, end.reason) == (RungState.FAIL, "config_error")


def test_nothing_affected_needs_no_process() -> None:
    end, asked = run(context_of({**BASE, "data.json": ""}, BASE))
    assert (end.state, asked) == (RungState.PASS, [])
