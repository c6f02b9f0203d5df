"""The static rungs with the real tools and a real interpreter."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.integration.rungs import WORKER, context_of, drive, interpreter, write

from glideslope.model.result import RungState
from glideslope.model.rung import Rung, VerifyPolicy
from glideslope.ports.toolchain import Context, ProjectRung, Tools
from glideslope.toolchains.python import PythonToolchain

pytestmark = pytest.mark.process

BIN = Path(sys.executable).parent
TOOLS = Tools(ruff=(str(BIN / "ruff"),), ty=(str(BIN / "ty"),), ruff_version="", worker=str(WORKER))


def other_pythons() -> list[str]:
    """Interpreters of other versions: from GLIDESLOPE_TEST_PYTHONS (paths, separated by colons), or on PATH."""
    named = os.environ.get("GLIDESLOPE_TEST_PYTHONS", "").split(os.pathsep)
    on_path = (shutil.which(f"python3.{minor}") for minor in range(9, 15))
    candidates = dict.fromkeys(filter(None, (*named, *on_path)))
    return [
        path for path in candidates if not subprocess.run([path, "-c", ""], capture_output=True).returncode
    ]


SHOP = {
    "pyproject.toml": '[project]\nname = "shop"\nversion = "1.0"\n',
    "src/shop/__init__.py": "",
    "src/shop/price.py": "def net(gross: float) -> float:\n    return gross / 1.2\n",
    "src/shop/order.py": "from shop.price import net\n\n\ndef total() -> float:\n    return net(3.0)\n",
    "tests/test_order.py": "from shop.order import total\n\n\ndef test_total() -> None:\n    assert total() == 2.5\n",
}


def climb(
    tmp_path: Path,
    now: Mapping[str, str],
    base: Mapping[str, str] | None = SHOP,
    *,
    without: tuple[str, ...] = ("ruff", "ty"),
    policy: VerifyPolicy = VerifyPolicy.STANDARD,
    upto: Rung = Rung.BUILD,
) -> tuple[Rung, ProjectRung]:
    """Climbs the static rungs until one does not pass; the last rung tried and its end."""
    after = write(tmp_path / "now", now)
    before = None if base is None else write(tmp_path / "base", base)
    found = replace(interpreter(without=without), version=(*sys.version_info[:2], 0))
    toolchain = PythonToolchain()
    context: Context = replace(context_of(after, before, policy=policy), tools=TOOLS, interpreter=found)
    for rung in (Rung.DIAGNOSE, Rung.COMPILE, Rung.BUILD):
        end, _ = drive(toolchain.script(rung, context), after, before)
        if rung is upto or end.state is not RungState.PASS:
            return rung, end
    raise AssertionError("no rung was asked for")


def blocks(end: ProjectRung) -> list[tuple[str, int, str]]:
    return [(found.path, found.line, found.source) for found in end.diagnostics if found.blocking]


def test_a_sound_change_passes_every_static_rung(tmp_path: Path) -> None:
    now = {**SHOP, "src/shop/price.py": SHOP["src/shop/price.py"].replace("1.2", "1.20")}
    rung, end = climb(tmp_path, now)
    assert (rung, end.state, end.summary) == (
        Rung.BUILD,
        RungState.PASS,
        "import smoke 3 modules, 0 new findings",
    )


def test_a_first_verify_passes_whatever_the_tools_think_of_old_code(tmp_path: Path) -> None:
    old = {**SHOP, "src/shop/old.py": "import os\nx: int = 'a'\nprint(undefined)\nfrom shop import nothere\n"}
    rung, end = climb(tmp_path, old, None)
    assert (rung, end.state) == (Rung.BUILD, RungState.PASS)


def test_an_undefined_name_is_found_by_ruff_and_ty(tmp_path: Path) -> None:
    now = {**SHOP, "src/shop/price.py": "def net(gross: float) -> float:\n    return gros / 1.2\n"}
    rung, end = climb(tmp_path, now)
    assert (rung, end.state) == (Rung.DIAGNOSE, RungState.FAIL)
    assert blocks(end) == [("src/shop/price.py", 2, "ruff"), ("src/shop/price.py", 2, "ty")]


def test_style_is_no_finding_where_the_repository_configures_no_ruff(tmp_path: Path) -> None:
    now = {**SHOP, "src/shop/price.py": "import os, sys\n" + SHOP["src/shop/price.py"]}
    assert climb(tmp_path, now, upto=Rung.DIAGNOSE)[1].state is RungState.PASS


def test_and_is_one_where_it_does(tmp_path: Path) -> None:
    base = {**SHOP, "ruff.toml": '[lint]\nselect = ["F401"]\n', "src/shop/old.py": "import os\n"}
    now = {
        **base,
        "src/shop/price.py": "import os\n" + SHOP["src/shop/price.py"],
        "src/shop/old.py": "\nimport os\n",
    }
    rung, end = climb(tmp_path, now, base)
    assert (rung, end.state, blocks(end)) == (
        Rung.DIAGNOSE,
        RungState.FAIL,
        [("src/shop/price.py", 1, "ruff")],
    )
    assert end.summary == "3 files, 1 new finding (1 known)"


def test_a_signature_that_no_longer_fits_its_caller_is_red_in_the_caller(tmp_path: Path) -> None:
    now = {
        **SHOP,
        "src/shop/price.py": "def net(gross: float, rate: float) -> float:\n    return gross / rate\n",
    }
    rung, end = climb(tmp_path, now)
    assert (rung, blocks(end)) == (Rung.DIAGNOSE, [("src/shop/order.py", 5, "ty")])


def test_the_installed_mypy_gates_where_the_repository_configures_it(tmp_path: Path) -> None:
    base = {**SHOP, "mypy.ini": "[mypy]\nmypy_path = src\n"}
    now = {**base, "src/shop/order.py": SHOP["src/shop/order.py"].replace("3.0", '"3.0"')}
    rung, end = climb(tmp_path, now, base)
    assert (rung, end.state, blocks(end)) == (
        Rung.COMPILE,
        RungState.FAIL,
        [("src/shop/order.py", 5, "mypy")],
    )


def test_a_ruff_that_rejects_its_configuration_is_a_finding(tmp_path: Path) -> None:
    base = {**SHOP, "ruff.toml": "line-length = 100\n"}
    now = {
        **base,
        "ruff.toml": "line-length = 100\nno-such-key = 1\n",
        "src/shop/order.py": SHOP["src/shop/order.py"] + "\n",
    }
    rung, end = climb(tmp_path, now, base)
    assert (rung, end.state, end.reason) == (Rung.DIAGNOSE, RungState.FAIL, "config_error")
    assert [(found.path, found.line) for found in end.diagnostics if found.blocking] == [("ruff.toml", 1)]


@pytest.mark.parametrize(
    ("code", "line", "words"),
    [
        ("raise RuntimeError('no')\n", 4, "RuntimeError: no"),
        ("import no_such_module\n", 4, "No module named"),
        ("import sys\nsys.exit(3)\n", 5, "SystemExit"),
        ("import os\nos._exit(3)\n", 0, "ended the process with status 3"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", 0, "ended the process with signal 11"),
        ("x = 1 is 1\n", 4, "with a literal"),
    ],
)
def test_a_module_that_does_not_import_is_red(tmp_path: Path, code: str, line: int, words: str) -> None:
    now = {**SHOP, "src/shop/price.py": "# ruff: noqa\n# ty: ignore\n\n" + code + SHOP["src/shop/price.py"]}
    rung, end = climb(tmp_path, now)
    assert (rung, end.state) == (Rung.BUILD, RungState.FAIL)
    assert blocks(end) == [("src/shop/price.py", line, "smoke")]
    assert words in end.diagnostics[0].message


def test_what_an_import_does_to_the_world_is_told(tmp_path: Path) -> None:
    code = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\nopen('made', 'w').close()\n"
    now = {**SHOP, "src/shop/price.py": code + SHOP["src/shop/price.py"]}
    rung, end = climb(tmp_path, now)
    assert (rung, end.state) == (Rung.BUILD, RungState.PASS)
    assert {found.code for found in end.diagnostics} >= {"import_effect_thread", "import_effect_write"}


def test_the_backend_builds_a_wheel_and_a_package_left_out_is_red(tmp_path: Path) -> None:
    build = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    backend = (
        "import zipfile\nfrom pathlib import Path\n\n\n"
        "def build_wheel(folder, config_settings=None, metadata_directory=None):\n"
        "    with zipfile.ZipFile(Path(folder, 'w.whl'), 'w') as wheel:\n"
        "        for path in Path('src').rglob('[!x]*.py'):\n"
        "            wheel.write(path, path.relative_to('src'))\n"
        "    return 'w.whl'\n"
    )
    base = {**SHOP, "pyproject.toml": SHOP["pyproject.toml"] + build, "backend.py": backend}
    changed = {**base, "pyproject.toml": base["pyproject.toml"].replace('"1.0"', '"1.1"')}
    rung, end = climb(tmp_path / "a", changed, base, without=("ruff", "ty"))
    assert (rung, end.state) == (Rung.BUILD, RungState.PASS), end
    left_out = {**changed, "src/shop/xtra.py": "y = 1\n"}
    rung, end = climb(tmp_path / "b", left_out, base)
    assert (rung, blocks(end)) == (Rung.BUILD, [("src/shop/xtra.py", 0, "build")])


@pytest.mark.parametrize("python", [sys.executable, *other_pythons()])
def test_the_injected_programs_run_on_every_interpreter_there_is(tmp_path: Path, python: str) -> None:
    root = write(tmp_path, {"p/__init__.py": "", "p/bad.py": "def f(:\n", "p/hang.py": "while True: pass\n"})
    gate = _worker(python, root, ["-S"], "syntax_gate", [], b"p/__init__.py\0p/bad.py\0")
    assert [(record["path"], record["line"]) for record in gate] == [("p/bad.py", 1)]
    smoke = _worker(python, root, [], "import_smoke", ["0.2", "."], b"p\np.bad\np.hang\n")
    assert [record.get("type", record.get("ok")) for record in smoke if "begin" not in record] == [
        True, "SyntaxError", "TooSlow",
    ]  # fmt: skip
    build = _worker(python, root, [], "pep517_build", ["wheel", "no_such_backend"], b"")
    assert [record["type"] for record in build] == ["ModuleNotFoundError"]


def test_an_import_that_was_given_up_names_the_module_that_was_not_there(tmp_path: Path) -> None:
    text = "try:\n    import nowhere\nexcept ImportError:\n    raise ImportError('install it')\n"
    root = write(tmp_path, {"p.py": text})
    _, told = _worker(sys.executable, root, [], "import_smoke", ["5", "."], b"p\n")
    assert told["message"] == "install it (No module named 'nowhere')"


def _worker(
    python: str, root: Path, options: list[str], program: str, arguments: list[str], stdin: bytes
) -> list[dict[str, object]]:
    read_fd, write_fd = os.pipe()
    argv = [python, "-I", *options, str(WORKER / "boot.py"), program, str(write_fd), *arguments]
    with os.fdopen(read_fd, "rb") as report:
        done = subprocess.run(
            argv, cwd=root, input=stdin, pass_fds=[write_fd], capture_output=True, check=False
        )
        os.close(write_fd)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in report]
