"""`diagnose.files`: what it asks for, and what it makes of the answers."""

from __future__ import annotations

import json

import pytest
from tests.unit.toolchains.python.world import clean, context_of, interpreter, play, said, shown

from glideslope.model.result import RungState
from glideslope.model.rung import VerifyPolicy
from glideslope.ports.toolchain import Command, Context, Output, ProjectRung, Side
from glideslope.toolchains.python.diagnose import diagnose
from glideslope.toolchains.python.module import Memo

RUFF = {"ruff.toml": ""}
BASE = {"a.py": "x = 1\n", "b.py": "import a\n", "c.py": ""}
NOW = {**BASE, "a.py": "x = 2\n"}


def ruff_says(path: str, line: int, code: str | None, message: str = "bad") -> dict[str, object]:
    place = {"row": line, "column": 1}
    return {
        "filename": f"/ws/{path}",
        "code": code,
        "message": message,
        "location": place,
        "end_location": place,
    }


def ty_says(path: str, line: int, rule: str, severity: str = "major") -> dict[str, object]:
    place = {"line": line, "column": 1}
    return {
        "check_name": rule,
        "description": f"{rule}: bad",
        "severity": severity,
        "location": {"path": path, "positions": {"begin": place, "end": place}},
    }


class Tools:
    """Answers ruff and ty with fixed findings on each side."""

    def __init__(
        self, *, ruff: list[object] | None = None, ty: list[object] | None = None, base: bool = False
    ) -> None:
        self._answers = {"ruff": ruff or [], "ty": ty or []}
        self._base = base  # whether the base has them too

    def __call__(self, command: Command) -> Output:
        tool = command.label.split()[0]
        records = self._answers[tool] if command.side is Side.NOW or self._base else []
        return said(command, json.dumps(records).encode(), code=1 if records else 0)


def run(context: Context, answer: object = clean) -> tuple[ProjectRung, list[Command]]:
    return play(diagnose(context, Memo()), answer)  # type: ignore[arg-type]


def test_changed_files_and_their_importers_are_checked() -> None:
    end, asked = run(context_of(NOW, BASE))
    assert (end.state, end.summary) == (RungState.PASS, "2 files, 0 new findings")
    assert [(command.kind, command.label, command.argv[-2:]) for command in asked] == [
        ("python.diagnose", "ruff", ("a.py", "b.py")), ("python.diagnose", "ty", ("a.py", "b.py")),
    ]  # fmt: skip


def test_a_file_that_does_not_compile_fails_without_a_process() -> None:
    end, asked = run(context_of({**NOW, "a.py": "def f(:\n"}, BASE))
    assert (end.state, end.reason, asked) == (RungState.FAIL, "syntax_error", [])
    assert shown(end.diagnostics) == [("a.py", 1, "syntax_error", "new")]
    assert end.diagnostics[0].column == 7


def test_a_project_file_that_does_not_parse_fails_without_a_process() -> None:
    end, asked = run(context_of({**NOW, "pyproject.toml": "x ="}, BASE))
    assert (end.state, end.reason, asked) == (RungState.FAIL, "config_error", [])


def test_a_file_that_never_compiled_is_known() -> None:
    base = {**BASE, "a.py": "print 'two'\n"}
    end, _ = run(context_of({**base, "a.py": "print 'three'\n"}, base))
    assert end.state is RungState.PASS
    assert shown(end.diagnostics) == [("a.py", 1, "syntax_error", "known")]


def test_without_a_base_only_syntax_errors_of_code_block() -> None:
    broken = "def f(:\n"
    end, _ = run(context_of({"tests/data/bad.py": broken, "a.py": ""}))
    assert end.state is RungState.PASS
    for path in ("a.py", "tests/test_a.py", "pkg/a.py"):
        end, _ = run(context_of({path: broken}))
        assert end.state is RungState.FAIL, path


def test_another_grammar_than_ours_is_asked_in_its_own_interpreter() -> None:
    context = context_of({**NOW, "a.py": "def f(:\n"}, BASE, installed=interpreter(version=(3, 99)))

    def answer(command: Command) -> Output:
        assert command.label in ("syntax", "ruff", "ty")
        return said(command) if command.label == "syntax" else clean(command)

    end, asked = run(context, answer)
    assert end.state is RungState.PASS
    assert asked[0].argv[:4] == ("/env/bin/python", "-I", "-S", "/worker/boot.py")
    assert asked[0].stdin == b"a.py\0b.py\0"

    def fault(command: Command) -> Output:
        if command.side is Side.BASE:
            return said(command)
        record = {"path": "b.py", "line": 1, "column": 2, "message": "new grammar"}
        return Output(command=command, outcome="exited", code=0, report=(json.dumps(record).encode(),))

    end, _ = run(context, fault)
    assert shown(end.diagnostics) == [("b.py", 1, "syntax_error", "new")]


def test_unconfigured_ruff_looks_for_certain_faults_only() -> None:
    _, asked = run(context_of(NOW, BASE, installed=interpreter(version=(3, 99))), lambda c: said(c, b"[]"))
    ruff = next(command for command in asked if command.label == "ruff")
    assert ruff.argv[0] == "ruff"
    assert "--isolated" in ruff.argv
    assert "E9,F63,F7,F82" in ruff.argv
    assert "py399" in ruff.argv


def test_configured_ruff_uses_the_repositorys_rules_and_its_own_program() -> None:
    end, asked = run(
        context_of({**RUFF, **NOW}, {**RUFF, **BASE}, installed=interpreter("ruff")),
        Tools(ruff=[ruff_says("a.py", 1, "D100")]),
    )
    assert asked[0].argv[:3] == ("/env/bin/python", "-m", "ruff")
    assert "--isolated" not in asked[0].argv
    assert (end.state, shown(end.diagnostics)) == (RungState.FAIL, [("a.py", 1, "D100", "new")])
    assert end.diagnostics[0].configured


def test_files_under_different_configurations_are_checked_apart() -> None:
    base = {"one/ruff.toml": "", "one/a.py": "", "b.py": ""}
    _, asked = run(context_of({**base, "one/a.py": "1", "b.py": "1"}, base))
    assert [command.argv[-1] for command in asked if command.label == "ruff"] == ["one/a.py", "b.py"]


def test_the_base_is_asked_only_where_something_would_block() -> None:
    _, asked = run(context_of(NOW, BASE), Tools(ty=[ty_says("a.py", 1, "odd", "minor")]))
    assert {command.side for command in asked} == {Side.NOW}
    _, asked = run(context_of(NOW, BASE), Tools(ruff=[ruff_says("a.py", 1, "F821")]))
    assert [(command.label, command.side) for command in asked][2:] == [("ruff on the base", Side.BASE)]


def test_what_the_base_had_is_known_and_does_not_block() -> None:
    now = {**BASE, "a.py": "# moved\nx = 1\n"}
    answers = {Side.NOW: 2, Side.BASE: 1}

    def answer(command: Command) -> Output:
        records = [ruff_says("a.py", answers[command.side], "F821")] if "ruff" in command.label else []
        return said(command, json.dumps(records).encode(), code=1 if records else 0)

    end, _ = run(context_of(now, BASE), answer)
    assert (end.state, shown(end.diagnostics)) == (RungState.PASS, [("a.py", 2, "F821", "known")])
    assert end.summary == "2 files, 0 new findings (1 known)"


def test_without_a_base_findings_are_known() -> None:
    end, asked = run(context_of(NOW), Tools(ruff=[ruff_says("a.py", 1, "F821")]))
    assert (end.state, shown(end.diagnostics)) == (RungState.PASS, [("a.py", 1, "F821", "known")])
    assert {command.side for command in asked} == {Side.NOW}


@pytest.mark.parametrize(
    ("path", "rule", "severity", "state"),
    [
        ("a.py", "invalid-assignment", "major", "new"),
        ("a.py", "invalid-assignment", "minor", "advisory"),
        ("b.py", "missing-attribute", "major", "new"),
        ("b.py", "unresolved-attribute", "major", "new"),
        ("b.py", "missing-argument", "major", "new"),
    ],
)
def test_ty_blocks_in_touched_files_and_for_ripples_in_importers(
    path: str, rule: str, severity: str, state: str
) -> None:
    end, _ = run(context_of(NOW, BASE), Tools(ty=[ty_says(path, 1, rule, severity)]))
    assert shown(end.diagnostics) == [(path, 1, rule, state)]
    assert (end.state is RungState.FAIL) == (state == "new")


def test_advice_about_files_that_are_not_touched_is_not_shown() -> None:
    end, _ = run(context_of(NOW, BASE), Tools(ty=[ty_says("b.py", 1, "invalid-assignment")]))
    assert (end.state, end.diagnostics) == (RungState.PASS, ())


def test_ty_is_advice_where_another_checker_is_configured() -> None:
    config = {"mypy.ini": "[mypy]\n"}
    end, _ = run(
        context_of({**config, **NOW}, {**config, **BASE}),
        Tools(ty=[ty_says("a.py", 1, "invalid-assignment")]),
    )
    assert (end.state, shown(end.diagnostics)) == (
        RungState.PASS,
        [("a.py", 1, "invalid-assignment", "advisory")],
    )


def test_an_optional_import_that_does_not_resolve_is_advice() -> None:
    now = {**BASE, "a.py": "try:\n    import fast\nexcept ImportError:\n    fast = None\n"}
    end, _ = run(context_of(now, BASE), Tools(ty=[ty_says("a.py", 2, "import-not-found")]))
    assert end.state is RungState.PASS


def test_an_import_of_a_module_of_the_workspace_on_another_path_is_advice_and_its_neighbour_is_not() -> None:
    now = {
        **BASE,
        "lib/helper.py": "X = 1\n",
        "a.py": "import sys\nsys.path.insert(0, 'lib')\nimport helper\nimport elsewhere\n",
    }
    here, gone = ty_says("a.py", 3, "import-not-found"), ty_says("a.py", 4, "import-not-found")
    end, _ = run(context_of(now, BASE), Tools(ty=[here]))
    assert end.state is RungState.PASS
    end, _ = run(context_of(now, BASE), Tools(ty=[here, gone]))
    assert end.state is RungState.FAIL
    assert [(one.line, one.blocking) for one in end.diagnostics] == [(3, False), (4, True)]


def test_an_importer_of_a_vanished_module_is_red_at_once() -> None:
    now = {path: text for path, text in BASE.items() if path != "a.py"}
    end, _ = run(context_of(now, BASE))
    assert (end.state, shown(end.diagnostics)) == (RungState.FAIL, [("b.py", 1, "unresolved_import", "new")])


def test_a_tool_that_rejects_its_configuration_is_a_finding_about_the_project() -> None:
    def answer(command: Command) -> Output:
        if "ruff" not in command.label:
            return clean(command)
        words = b"ruff failed\n  Cause: Failed to parse /ws/ruff.toml\n  Cause: TOML parse error at line 3, column 5\n  |\n3 | x\nunknown field"
        return said(command, code=2, stderr=words)

    end, _ = run(context_of({**RUFF, **NOW}, {**RUFF, **BASE}), answer)
    assert (end.state, end.reason) == (RungState.FAIL, "config_error")
    (found,) = end.diagnostics
    assert (found.path, found.line, found.column) == ("ruff.toml", 3, 5)
    assert "unknown field" in found.message


def test_a_ruff_of_the_wrong_version_counts_as_not_installed() -> None:
    def answer(command: Command) -> Output:
        if "ruff" in command.label and "--isolated" not in command.argv:
            return said(
                command, code=2, stderr=b"ruff failed\n  Cause: Required version `==0.1` does not match"
            )
        return clean(command)

    context = context_of({**RUFF, **NOW}, {**RUFF, **BASE})
    end, _ = run(context, answer)
    assert (end.state, end.reason) == (RungState.PASS, "checker_missing")
    end, _ = run(context_of({**RUFF, **NOW}, {**RUFF, **BASE}, policy=VerifyPolicy.STRICT), answer)
    assert (end.state, end.reason) == (RungState.INCONCLUSIVE, "tool_missing")
    assert end.next is not None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"outcome": "signalled", "code": None, "signal": 11}, "died"),
        ({"outcome": "timed_out", "limit": "wall", "code": None}, "timed_out"),
        ({"outcome": "oom", "code": None}, "died"),
        ({"code": 101, "stderr": b"thread main panicked"}, "died"),
        ({"stdout": b"{"}, "died"),
        ({"stdout": b"[]", "stdout_omitted": 7}, "died"),
    ],
)
def test_a_tool_that_gives_no_answer_is_a_death_and_no_verdict_about_the_code(
    change: dict[str, object], reason: str
) -> None:
    def answer(command: Command) -> Output:
        if "ty" not in command.label:
            return clean(command)
        return Output(**{"command": command, "outcome": "exited", "code": 0, **change})  # type: ignore[arg-type]

    end, _ = run(context_of(NOW, BASE), answer)
    assert (end.state, end.reason) == (RungState.DIED, reason)


def test_generated_code_older_than_its_source_proves_nothing() -> None:
    base = {"x.proto": "1", "gen/x_pb2.py": "", "speed.pyx": "1", "speed.cpython-311-x86_64-linux-gnu.so": ""}
    end, _ = run(context_of({**base, "x.proto": "2"}, base))
    assert (end.state, end.reason) == (RungState.INCONCLUSIVE, "generated_stale")
    end, _ = run(context_of({**base, "speed.pyx": "2"}, base))
    assert (end.state, end.reason) == (RungState.INCONCLUSIVE, "generated_stale")
    end, _ = run(context_of({**base, "x.proto": "2", "gen/x_pb2.py": "x = 1"}, base))
    assert end.state is RungState.PASS
    end, _ = run(context_of(base))
    assert end.state is RungState.PASS


def test_a_change_without_python_files_passes_without_a_process() -> None:
    end, asked = run(context_of({**BASE, "data.json": "1"}, BASE))
    assert (end.state, asked) == (RungState.PASS, [])


def test_the_base_of_an_unchanged_question_is_not_asked_twice() -> None:
    memo = Memo()
    tools = Tools(ruff=[ruff_says("a.py", 1, "F821")])
    for text, sides in (("x = 2\n", 2), ("x = 3\n", 2)):
        _, asked = play(diagnose(context_of({**BASE, "a.py": text}, BASE), memo), tools)
        assert [command.side for command in asked].count(Side.NOW) == sides
    assert Side.BASE not in {command.side for command in asked}


@pytest.mark.parametrize("base", [None, {"a.json": "", "a.py": ""}])
def test_a_file_that_no_tool_looks_at_is_no_pass_where_it_is_all_that_was_asked_about(base) -> None:
    now = {"a.json": "{}", "a.py": "", "pyproject.toml": ""}
    end, _ = run(context_of(now, base, only_paths=("a.json",), policy=VerifyPolicy.MINIMAL))
    assert (end.state, end.reason) == (RungState.INCONCLUSIVE, "nothing_to_check")
    assert end.summary == "no tool looks at a.json: there is no Python in it"
    for paths in (("a.json", "a.py"), ("pyproject.toml",)):
        end, _ = run(context_of(now, base, only_paths=paths, policy=VerifyPolicy.MINIMAL))
        assert end.state is RungState.PASS
    end, _ = run(context_of(now, base, only_paths=("a.json",)))  # higher rungs say more
    assert end.state is RungState.PASS


def test_a_change_of_other_files_alone_passes() -> None:
    end, _ = run(
        context_of({"a.json": "1", "a.py": ""}, {"a.json": "2", "a.py": ""}, policy=VerifyPolicy.MINIMAL)
    )
    assert (end.state, end.summary) == (RungState.PASS, "no Python file to look at")


@pytest.mark.parametrize("policy", [VerifyPolicy.MINIMAL, VerifyPolicy.STANDARD])
def test_a_path_that_the_snapshot_does_not_have_is_told(policy: VerifyPolicy) -> None:
    base = {"a.py": "", "gone.py": ""}
    end, _ = run(context_of({"a.py": ""}, base, only_paths=("nope.py",), policy=policy))
    assert (end.state, end.reason) == (RungState.INCONCLUSIVE, "no_such_file")
    assert end.summary == "no such file in the snapshot: nope.py"
    end, _ = run(context_of({"a.py": ""}, base, only_paths=("a.py", "nope.py"), policy=policy))
    assert (end.state, end.reason) == (RungState.INCONCLUSIVE, "no_such_file")
    end, _ = run(context_of({"a.py": "("}, base, only_paths=("a.py", "nope.py"), policy=policy))
    assert end.state is RungState.FAIL
    end, _ = run(context_of({"a.py": ""}, base, only_paths=("gone.py",), policy=VerifyPolicy.STANDARD))
    assert end.state is RungState.PASS
