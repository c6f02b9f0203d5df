"""`build.affected`: would an install of this snapshot work?"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from tests.unit.toolchains.python.world import TextTree, context_of, interpreter, play, project, said, shown

from glideslope.model.paths import RepoPath
from glideslope.model.result import RungState
from glideslope.model.rung import VerifyPolicy
from glideslope.ports.toolchain import Command, Context, Output, ProjectRung, Side
from glideslope.toolchains.python.build import build_affected
from glideslope.toolchains.python.graph import ImportGraph
from glideslope.toolchains.python.module import Memo
from glideslope.toolchains.python.package import shipped
from glideslope.toolchains.python.smoke import smoke_modules

TOML = """\
[build-system]
requires = ["hatchling>=1.5"]
build-backend = "hatchling.build"
[project]
name = "shop"
version = "1.0"
readme = "README.md"
dependencies = ["click>=8,<9", "tomli; python_version < '3.11'"]
[project.scripts]
shop = "shop.cli:main"
"""
BASE = {
    "pyproject.toml": TOML,
    "README.md": "",
    "src/shop/__init__.py": "",
    "src/shop/cli.py": "def main(): ...\n",
    "src/shop/price.py": "x = 1\n",
    "src/shop/__main__.py": "",
    "tests/test_price.py": "import shop.price\n",
}
NOW = {**BASE, "src/shop/price.py": "x = 2\n"}
WHEEL = ["shop/__init__.py", "shop/__main__.py", "shop/cli.py", "shop/price.py"]
Answer = Callable[[Command], Output]


def reported(command: Command, *records: Mapping[str, object], **rest: object) -> Output:
    lines = tuple(json.dumps(record).encode() for record in records)
    return Output(**{"command": command, "outcome": "exited", "code": 0, "report": lines, **rest})  # type: ignore[arg-type]


def imports(failing: Mapping[str, int] | None = None, *, base_fails: bool = False) -> Answer:
    """Imports everything but the failing modules, at their line; wheels hold everything."""

    def answer(command: Command) -> Output:
        if "pep517_build" in command.argv:
            return reported(command, {"ok": True, "files": WHEEL})
        records: list[Mapping[str, object]] = []
        for module in command.stdin.decode().split():
            records.append({"begin": module})
            line = (failing or {}).get(module) if command.side is Side.NOW or base_fails else None
            if line is None:
                records.append({"module": module, "ok": True})
            else:
                path = f"/ws/src/{module.replace('.', '/')}.py"
                fault = {"module": module, "ok": False, "type": "ValueError", "message": "no"}
                records.append({**fault, "file": path, "line": line})
        return reported(command, *records)

    return answer


def run(context: Context, answer: Answer | None = None) -> tuple[ProjectRung, list[Command]]:
    return play(build_affected(context, Memo()), answer or imports())


def test_affected_modules_are_imported_in_one_fresh_process() -> None:
    end, asked = run(context_of(NOW, BASE))
    assert (end.state, end.summary) == (RungState.PASS, "import smoke 2 modules, 0 new findings")
    (command,) = asked
    assert command.argv == (
        "/env/bin/python", "-I", "/worker/boot.py", "import_smoke", "{report_fd}", "5", "src",
    )  # fmt: skip
    assert command.stdin.decode().split() == ["shop", "shop.price"]
    assert command.report


def test_a_module_that_no_longer_imports_is_red_with_its_line() -> None:
    end, asked = run(context_of(NOW, BASE), imports({"shop.price": 7}))
    assert [command.side for command in asked] == [Side.NOW, Side.BASE]
    assert (end.state, shown(end.diagnostics)) == (
        RungState.FAIL, [("src/shop/price.py", 7, "import_failed", "new")],
    )  # fmt: skip


def test_a_module_that_does_not_import_on_the_base_either_is_known() -> None:
    end, _ = run(context_of(NOW, BASE), imports({"shop.price": 7}, base_fails=True))
    assert (end.state, shown(end.diagnostics)) == (
        RungState.PASS, [("src/shop/price.py", 7, "import_failed", "known")],
    )  # fmt: skip


def test_without_a_base_only_a_package_that_does_not_import_at_all_is_red() -> None:
    end, _ = run(context_of(NOW), imports({"shop.price": 7}))
    assert end.state is RungState.PASS
    end, _ = run(context_of(NOW), imports({"shop": 1, "shop.price": 7}))
    assert end.state is RungState.FAIL


def lacks(message: str, kind: str = "ModuleNotFoundError") -> Answer:
    """Importing `shop` fails with an error; everything else imports."""

    def answer(command: Command) -> Output:
        fault = {
            "module": "shop",
            "ok": False,
            "type": kind,
            "message": message,
            "file": "/ws/src/shop/__init__.py",
        }
        first, *rest = (json.loads(line) for line in imports()(command).report)
        return reported(command, first, {**fault, "line": 1}, *rest[1:])

    return answer


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("No module named 'click'", "ModuleNotFoundError"),
        ("install click first (No module named 'click')", "ImportError"),
        ("No module named 'billing'", "ModuleNotFoundError"),
    ],
)
def test_without_a_base_the_lack_of_somebody_elses_module_is_left_to_the_tests(
    message: str, kind: str
) -> None:
    now = {**NOW, "other/pyproject.toml": "[project]\n", "other/billing/__init__.py": ""}
    context = context_of(now, roots=("", "other"))
    end, _ = run(context, lacks(message, kind))
    assert (end.state, shown(end.diagnostics)) == (
        RungState.PASS, [("src/shop/__init__.py", 1, "import_failed", "known")],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("module", "step"),
    [
        ("click", "'/my env/python' -m pip install 'click>=8,<9'"),
        ("billing", "'/my env/python' -m pip install -e other"),
        ("yaml", "add what provides yaml to the environment: '/my env/python' -m pip install NAME"),
    ],
)
def test_without_base_and_tests_the_lack_of_somebody_elses_module_proves_nothing(
    module: str, step: str
) -> None:
    now = {**NOW, "other/pyproject.toml": "[project]\n", "other/billing/__init__.py": ""}
    del now["tests/test_price.py"]
    python = replace(interpreter(), executable="/my env/python")
    end, _ = run(context_of(now, roots=("", "other"), installed=python), lacks(f"No module named '{module}'"))
    assert (end.state, end.reason, end.next) == (RungState.INCONCLUSIVE, "dependency_missing", step)
    assert end.summary.startswith(f"{module} cannot be imported, and there is no test; import smoke")


@pytest.mark.parametrize(
    ("message", "kind", "hinted"),
    [
        ("No module named 'shop.version'", "ModuleNotFoundError", True),
        ("No module named 'shop.price'", "ModuleNotFoundError", False),
        ("name 'x' is not defined", "NameError", False),
        ("cannot import name 'x' from 'click'", "ImportError", False),
    ],
)
def test_without_a_base_a_fault_of_the_projects_own_is_red(message: str, kind: str, hinted: bool) -> None:
    end, _ = run(context_of(NOW), lacks(message, kind))
    assert (end.state, shown(end.diagnostics)) == (
        RungState.FAIL, [("src/shop/__init__.py", 1, "import_failed", "new")],
    )  # fmt: skip
    hint = "; if git ignores it, name it in carry_files"
    assert end.diagnostics[0].message == f"importing shop: {kind}: {message}{hint if hinted else ''}"


def test_with_a_base_the_lack_of_a_module_is_new_where_the_base_imported() -> None:
    message = "No module named 'click'"
    now = {**NOW, "src/shop/__init__.py": "import click\n"}
    end, _ = run(context_of(now, BASE), lambda c: (lacks(message) if c.side is Side.NOW else imports())(c))
    assert end.state is RungState.FAIL
    end, _ = run(context_of(now, BASE), lacks(message))
    assert end.state is RungState.PASS


def test_imports_find_what_pytest_is_told_to_put_on_the_path() -> None:
    ini = "[pytest]\npythonpath = . ../billing/src /elsewhere ../../outside\n"
    now = {
        "shop/pyproject.toml": TOML,
        "shop/README.md": "",
        "shop/pytest.ini": ini,
        "shop/src/shop/__init__.py": "",
        "shop/src/shop/cli.py": "def main(): ...\n",
        "billing/src/billing/__init__.py": "",
    }
    _, asked = run(context_of(now, roots=("shop",)))
    assert asked[0].argv[6:] == ("src", ".", "../billing/src")


def test_a_module_that_ends_the_process_is_named_and_the_rest_is_imported() -> None:
    rounds: list[list[str]] = []

    def answer(command: Command) -> Output:
        modules = command.stdin.decode().split()
        if command.side is Side.BASE:
            return imports()(command)
        rounds.append(modules)
        if modules[0] == "shop":
            done = ({"begin": "shop"}, {"module": "shop", "ok": True}, {"begin": modules[1]})
            return reported(command, *done, outcome="signalled", code=None, signal=11)
        return imports()(command)

    end, _ = run(context_of({**NOW, "src/shop/cli.py": "def main(): pass\n"}, BASE), answer)
    assert rounds == [["shop", "shop.cli", "shop.price"], ["shop.price"]]
    assert (end.state, shown(end.diagnostics)) == (
        RungState.FAIL,
        [("src/shop/cli.py", 0, "import_failed", "new")],
    )
    assert "signal 11" in end.diagnostics[0].message


def test_a_process_that_ends_before_any_module_died() -> None:
    end, _ = run(
        context_of(NOW, BASE), lambda command: reported(command, outcome="signalled", code=None, signal=9)
    )
    assert end.state is RungState.DIED


def test_a_slow_import_gets_a_second_longer_try() -> None:
    def slow_below(limit_s: float) -> Answer:
        def answer(command: Command) -> Output:
            cap_s = float(command.argv[5])
            if command.side is Side.BASE or cap_s > limit_s:
                return imports()(command)
            fault = {
                "module": "shop.price",
                "ok": False,
                "type": "TooSlow",
                "message": "slow",
                "file": "",
                "line": 0,
            }
            begun = (
                [{"begin": "shop"}, {"module": "shop", "ok": True}]
                if "shop\n" in command.stdin.decode()
                else []
            )
            return reported(command, *begun, {"begin": "shop.price"}, fault)

        return answer

    end, asked = run(context_of(NOW, BASE), slow_below(6))
    assert [command.stdin.decode().split() for command in asked] == [["shop", "shop.price"], ["shop.price"]]
    assert (end.state, end.summary) == (RungState.PASS, "import smoke 2 modules, 0 new findings")
    end, _ = run(context_of(NOW, BASE), slow_below(100))
    assert (end.state, shown(end.diagnostics)) == (
        RungState.FAIL,
        [("src/shop/price.py", 0, "import_slow", "new")],
    )


def test_effects_of_an_import_are_advice() -> None:
    def answer(command: Command) -> Output:
        effect = {
            "module": "shop.price",
            "effect": "socket",
            "detail": "connect",
            "file": "/ws/src/shop/price.py",
            "line": 1,
        }
        return reported(command, effect, *(json.loads(line) for line in imports()(command).report))

    end, _ = run(context_of(NOW, BASE), answer)
    assert (end.state, shown(end.diagnostics)) == (
        RungState.PASS, [("src/shop/price.py", 1, "import_effect_socket", "advisory")],
    )  # fmt: skip


# What is declared


def declared(now: Mapping[str, str], base: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """Code and message of what blocks or is known, without importing anything."""
    end, _ = run(context_of(now, BASE if base is None else base))
    return [(found.code, found.message) for found in end.diagnostics if found.source == "build"]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('name = "shop"', 'name = "no name!"', "metadata"),
        ('name = "shop"', "", "metadata"),
        ('version = "1.0"', 'version = "one"', "metadata"),
        ('version = "1.0"', "", "metadata"),
        ('version = "1.0"', 'version = "1.0"\ndynamic = ["version"]', "metadata"),
        ('version = "1.0"', 'version = "1.0"\nrequires-python = "three"', "metadata"),
        ('"click>=8,<9"', '"click >= > 8"', "metadata"),
        ('"README.md"', '"READ.md"', "missing_file"),
        ("shop.cli:main", "shop.cli:nothing", "entry_point"),
        ("shop.cli:main", "shop.nothere:main", "entry_point"),
        ("shop.cli:main", "shop.cli main", "entry_point"),
    ],
)
def test_a_declaration_that_is_wrong_is_red_without_a_process(old: str, new: str, code: str) -> None:
    assert old in TOML
    end, asked = run(context_of({**BASE, "pyproject.toml": TOML.replace(old, new)}, BASE))
    assert (end.state, asked) == (RungState.FAIL, [])
    assert [found.code for found in end.diagnostics] == [code]
    assert end.diagnostics[0].path == "pyproject.toml"


@pytest.mark.parametrize(
    "new",
    [
        'version = "1.0rc1.post2.dev3+local.1"',
        'version = "1!2.0"',
        'dynamic = ["version"]',
        'version = "1.0"\nrequires-python = ">=3.9, !=3.10.*"',
        'version = "1.0"\nlicense-files = ["README*"]',
    ],
)
def test_a_declaration_that_is_right_is_not_red(new: str) -> None:
    now = {**BASE, "pyproject.toml": TOML.replace('version = "1.0"', new)}
    assert declared(now) == []


def test_requirements_of_every_form_are_accepted() -> None:
    good = [
        "a",
        "a-b.c_d",
        "a[x,y]>=1",
        "a (>=1)",
        "a @ https://example.org/a.whl",
        "a~=1.0; os_name == 'nt'",
        "a==1.*",
    ]
    assert declared({**BASE, "pyproject.toml": TOML.replace('"click>=8,<9"', json.dumps(good)[1:-1])}) == []


def test_an_entry_point_lost_by_an_edit_of_code_is_red() -> None:
    assert [code for code, _ in declared({**BASE, "src/shop/cli.py": "def other(): ...\n"})] == [
        "entry_point"
    ]
    for still in ("from x import *\n", "main = 1\n", "def __getattr__(name): ...\n"):
        assert declared({**BASE, "src/shop/cli.py": still}) == []


def test_what_was_wrong_before_is_known() -> None:
    wrong = {**BASE, "pyproject.toml": TOML.replace("shop.cli:main", "shop.cli:nothing")}
    end, _ = run(context_of({**wrong, "src/shop/price.py": "x = 3\n"}, wrong))
    assert (end.state, shown(end.diagnostics)) == (
        RungState.PASS,
        [("pyproject.toml", 10, "entry_point", "known")],
    )
    end, _ = run(context_of(wrong))
    assert end.state is RungState.PASS


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", '[project]\nname = "s"\nversion = "1"\n[tool.setuptools]\npackages = ["shop"]\n'),
        ("setup.cfg", "[metadata]\nname = s\n[options]\npackages = shop\n"),
    ],
)
def test_a_new_package_missing_from_a_list_is_red(file: str, text: str) -> None:
    base = {file: text, "shop/__init__.py": ""}
    now = {**base, "shop/deep/__init__.py": ""}
    assert declared(now, base) == [("package_not_listed", "package shop.deep would not be installed")]


def test_a_new_folder_that_a_search_passes_over_is_red_once_it_is_imported() -> None:
    base = {"setup.cfg": "[metadata]\nname = s\n[options]\npackages = find:\n", "shop/__init__.py": ""}
    now = {**base, "shop/deep/m.py": ""}
    assert declared(now, base) == []
    used = {**now, "shop/a.py": "import shop.deep.m\n"}
    assert [code for code, _ in declared(used, base)] == ["package_not_listed"]


def test_package_data_that_matches_nothing_is_red() -> None:
    toml = '[project]\nname = "s"\nversion = "1"\n[tool.setuptools.package-data]\nshop = ["*.json"]\n'
    base = {"pyproject.toml": toml, "shop/__init__.py": "", "shop/a.json": ""}
    now = {path: text for path, text in base.items() if path != "shop/a.json"}
    assert declared(now, base) == [("package_data", "no file of shop matches *.json")]


# The backend


def test_a_body_edit_does_not_build_a_wheel() -> None:
    _, asked = run(context_of(NOW, BASE, installed=interpreter(versions={"hatchling": "1.9"})))
    assert [command.label for command in asked] == ["import smoke"]


def test_a_changed_input_of_the_build_does() -> None:
    now = {**BASE, "pyproject.toml": TOML + '[project.urls]\nhome = "x"\n'}
    end, asked = run(context_of(now, BASE, installed=interpreter(versions={"hatchling": "1.9"})))
    assert end.state is RungState.PASS
    assert [command.label for command in asked] == ["wheel", "wheel on the base"]
    assert asked[0].argv[-3:] == ("{report_fd}", "wheel", "hatchling.build")


def test_settings_of_other_tools_and_the_text_of_a_readme_are_no_input() -> None:
    now = {**BASE, "pyproject.toml": TOML + "[tool.ruff]\n", "README.md": "more"}
    end, asked = run(context_of(now, BASE))
    assert (end.state, asked) == (RungState.PASS, [])


def test_a_backend_that_is_not_there_matters_only_where_an_input_changed() -> None:
    changed = {**BASE, "pyproject.toml": TOML.replace('"1.0"', '"1.1"')}
    for installed in (interpreter(), interpreter(versions={"hatchling": "1.4"})):
        end, _ = run(context_of(changed, BASE, installed=installed))
        assert (end.state, end.reason) == (RungState.INCONCLUSIVE, "backend_unavailable")
    end, _ = run(context_of(NOW, BASE, policy=VerifyPolicy.CI_PARITY))
    assert (end.state, end.reason) == (RungState.PASS, "")
    assert "no wheel built: hatchling is not installed here" in end.summary
    end, _ = run(context_of(NOW, policy=VerifyPolicy.CI_PARITY))  # without a base nothing says it was built
    assert (end.state, end.reason) == (RungState.INCONCLUSIVE, "backend_unavailable")
    assert end.next == "/env/bin/python -m pip install 'hatchling>=1.5'"


def test_a_module_left_out_of_the_wheel_is_red() -> None:
    now = {**BASE, "pyproject.toml": TOML.replace('"1.0"', '"1.1"')}

    def answer(command: Command) -> Output:
        files = WHEEL if command.side is Side.BASE else [file for file in WHEEL if "price" not in file]
        return reported(command, {"ok": True, "files": files})

    end, asked = run(context_of(now, BASE, installed=interpreter(versions={"hatchling": "1.9"})), answer)
    assert [command.label for command in asked] == ["wheel", "wheel on the base"]
    assert (end.state, shown(end.diagnostics)) == (
        RungState.FAIL,
        [("src/shop/price.py", 0, "not_in_wheel", "new")],
    )


def test_a_backend_that_fails_is_red_where_the_base_was_built() -> None:
    now = {**BASE, "pyproject.toml": TOML.replace("hatchling.build", "hatchling.nothere")}

    def answer(command: Command) -> Output:
        if command.argv[-1] == "hatchling.build":
            return reported(command, {"ok": True, "files": WHEEL})
        return reported(command, {"ok": False, "type": "ImportError", "message": "no module"})

    end, _ = run(context_of(now, BASE, installed=interpreter(versions={"hatchling": "1.9"})), answer)
    assert (end.state, shown(end.diagnostics)) == (
        RungState.FAIL,
        [("pyproject.toml", 0, "wheel_failed", "new")],
    )


def test_changed_sources_of_an_extension_leave_the_rung_without_a_proof() -> None:
    base = {
        "setup.py": "setup(ext_modules=[Extension('fast', ['fast.c'])])",
        "fast.c": "1",
        "pkg/__init__.py": "",
    }
    now = {**base, "fast.c": "2"}
    end, _ = run(context_of(now, base))
    assert (end.state, end.reason) == (RungState.INCONCLUSIVE, "native_sources_changed")
    built = {**now, "pkg/fast.cpython-311-x86_64-linux-gnu.so": "new"}
    end, _ = run(context_of(built, {**base, "pkg/fast.cpython-311-x86_64-linux-gnu.so": "old"}))
    assert end.state is RungState.PASS
    plain = {**base, "setup.py": "setup()"}
    end, _ = run(context_of({**plain, "fast.c": "2"}, plain))
    assert end.state is RungState.PASS


def test_an_outdated_lock_is_red_and_an_offline_doubt_is_not() -> None:
    base = {**BASE, "uv.lock": "1"}
    now = {**base, "pyproject.toml": TOML.replace('"click>=8,<9"', '"click>=9"')}
    installed = interpreter("uv", versions={"hatchling": "1.9"})
    states = []
    for words in (
        b"error: The lockfile at `uv.lock` needs to be updated",
        b"error: network connectivity is disabled",
    ):

        def answer(command: Command, words: bytes = words) -> Output:
            if command.label.startswith("uv lock"):
                return said(command, code=0 if command.side is Side.BASE else 1, stderr=words)
            return imports()(command)

        end, _ = run(context_of(now, base, installed=installed), answer)
        states.append(end.state)
    assert states == [RungState.FAIL, RungState.PASS]


# What is shipped


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({"pkg/__init__.py": "", "tests/__init__.py": "", "docs/__init__.py": ""}, {"pkg": "pkg"}),
        ({"src/pkg/__init__.py": "", "other/__init__.py": ""}, {"pkg": "src/pkg"}),
        (
            {
                "pyproject.toml": "[tool.setuptools]\npackages = ['a']",
                "a/__init__.py": "",
                "b/__init__.py": "",
            },
            {"a": "a"},
        ),
        (
            {
                "pyproject.toml": "[tool.setuptools.packages.find]\nwhere = ['code']\nexclude = ['x*']",
                "code/a/__init__.py": "",
                "code/xa/__init__.py": "",
            },
            {"a": "code/a"},
        ),
        (
            {"pyproject.toml": "[tool.setuptools.package-dir]\nshop = 'source'", "source/__init__.py": ""},
            {"source": "source", "shop": "source"},
        ),
        (
            {
                "pyproject.toml": "[tool.hatch.build.targets.wheel]\npackages = ['lib/acme']",
                "lib/acme/m.py": "",
            },
            {"acme": "lib/acme"},
        ),
        ({"setup.cfg": "[options]\npackages = ns.pkg\n", "ns/pkg/__init__.py": ""}, {"ns.pkg": "ns/pkg"}),
    ],
)
def test_what_is_shipped_is_read_from_the_declaration(
    files: Mapping[str, str], wanted: Mapping[str, str]
) -> None:
    assert dict(shipped(TextTree(files), project()).packages) == wanted


def test_lone_modules_are_shipped_where_they_are_declared_or_in_src() -> None:
    files = {"pyproject.toml": "[tool.setuptools]\npy-modules = ['one']", "one.py": "", "two.py": ""}
    assert dict(shipped(TextTree(files), project()).modules) == {"one": "one.py"}
    assert dict(shipped(TextTree({"src/one.py": "", "two.py": ""}), project()).modules) == {
        "one": "src/one.py"
    }


def test_only_fair_targets_are_smoked() -> None:
    tree = TextTree(
        dict.fromkeys(
            (
                "p/__init__.py",
                "p/__main__.py",
                "p/conftest.py",
                "p/test_a.py",
                "p/tests/a.py",
                "p/z.py",
                "setup.py",
                "p/a-b.py",
            ),
            "",
        )
    )
    graph = ImportGraph.of(tree, (project(),), Memo())
    found = smoke_modules(
        tree, shipped(tree, project()), tuple(RepoPath(path) for path in tree.entries), graph
    )
    assert list(found) == ["p", "p.z"]


def test_what_is_imported_is_smoked_before_what_imports_it() -> None:
    tree = TextTree(
        {
            "p/__init__.py": "from p import z",
            "p/a.py": "from p import b",
            "p/b.py": "from p import c",
            "p/c.py": "from p import a",
            "p/z.py": "",
        }
    )
    graph = ImportGraph.of(tree, (project(),), Memo())
    found = smoke_modules(tree, shipped(tree, project()), graph.files, graph)
    assert list(found) == ["p.z", "p", "p.c", "p.b", "p.a"]
