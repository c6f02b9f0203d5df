"""Which test files a change reaches; when in doubt, all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import pytest

from glideslope.model.ids import BlobId
from glideslope.model.paths import RepoPath
from glideslope.model.project import Interpreter, Project
from glideslope.model.rung import VerifyPolicy
from glideslope.model.snapshot import Entry, FileMode, diff
from glideslope.ports.toolchain import Context, Tools
from glideslope.toolchains.python.graph import ImportGraph
from glideslope.toolchains.python.module import Memo
from glideslope.toolchains.python.selection import Selected, select


class TextTree:
    """A tree of given texts."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = {RepoPath(path): text.encode() for path, text in files.items()}
        self.entries = {
            path: Entry(
                FileMode.REGULAR, BlobId(hashlib.sha1(data, usedforsecurity=False).hexdigest()), len(data)
            )
            for path, data in self._files.items()
        }

    def read(self, path: RepoPath) -> bytes:
        return self._files[path]


SHOP = {
    "pyproject.toml": '[project]\nname = "shop"\nreadme = "README.md"\n[project.scripts]\nshopctl = "shop.cli:main"\n',
    "README.md": "",
    "CHANGES.rst": "",
    "src/shop/__init__.py": "",
    "src/shop/price.py": "",
    "src/shop/stock.py": "from shop import price\n",
    "src/shop/late.py": "",
    "src/shop/cli.py": "from shop import late\n",
    "src/shop/data.json": "{}",
    "src/shop/lonely.py": "",
    "tests/conftest.py": "",
    "tests/test_price.py": "import shop.price\n",
    "tests/test_stock.py": "from shop.stock import stock\n",
    "tests/test_dynamic.py": "import importlib\nimportlib.import_module('shop.late')\n",
    "tests/test_command.py": "import subprocess\nsubprocess.run(['shopctl', '-v'])\n",
    "tests/deep/__init__.py": "",
    "tests/deep/conftest.py": "import shop.late\n",
    "tests/deep/test_deep.py": "",
}
ALL = {path.rpartition("/")[2] for path in SHOP if path.rpartition("/")[2].startswith("test_")}


def selected(base: Mapping[str, str] | None, now: Mapping[str, str], **settings: object) -> Selected:
    after = TextTree(now)
    before = None if base is None else TextTree(base)
    roots = settings.pop("projects", ("",))
    assert isinstance(roots, tuple)
    projects = tuple(Project(name=root or ".", root=root, toolchain="python") for root in roots)
    context = Context(
        project=projects[0],
        projects=projects,
        now=after,
        base=before,
        changes=diff({} if before is None else before.entries, after.entries),
        interpreter=Interpreter(
            executable="python",
            prefix="",
            version=(3, 11, 0),
            implementation="cpython",
            how="",
            distributions={"pytest": "9"},
        ),
        tools=Tools(ruff=(), ty=(), ruff_version="", worker=""),
        policy=VerifyPolicy.STANDARD,
        workspace_root="/w",
        processes=1,
        isolated=True,
        network_open=False,
        **settings,  # type: ignore[arg-type]
    )
    return select(context, ImportGraph.of(after, projects, Memo(), before))


def names(found: Selected) -> set[str]:
    assert set(found.why) == set(found.selected)
    return {path.rpartition("/")[2] for path in found.selected}


def without(*paths: str) -> dict[str, str]:
    return {path: text for path, text in SHOP.items() if path not in paths}


def test_without_a_base_everything_is_selected() -> None:
    found = selected(None, SHOP)
    assert names(found) == ALL
    assert found.everything


def test_without_a_change_nothing_is_selected() -> None:
    assert names(selected(SHOP, SHOP)) == set()


@pytest.mark.parametrize(
    ("changed", "reached"),
    [
        ("src/shop/price.py", {"test_price.py", "test_stock.py"}),
        ("src/shop/stock.py", {"test_stock.py"}),
        ("src/shop/late.py", {"test_dynamic.py", "test_deep.py", "test_command.py"}),
        ("src/shop/lonely.py", set()),
        (
            "src/shop/__init__.py",
            {"test_price.py", "test_stock.py", "test_dynamic.py", "test_deep.py", "test_command.py"},
        ),
        ("tests/test_price.py", {"test_price.py"}),
        ("tests/conftest.py", ALL),
        ("tests/deep/conftest.py", {"test_deep.py"}),
        ("tests/deep/__init__.py", {"test_deep.py"}),
        ("src/shop/data.json", ALL),
        ("pyproject.toml", set()),
        ("README.md", set()),
        ("CHANGES.rst", set()),
    ],
)
def test_a_change_reaches_what_depends_on_it(changed: str, reached: set[str]) -> None:
    assert names(selected(SHOP, {**SHOP, changed: SHOP[changed] + "\n# changed\n"})) == reached


@pytest.mark.parametrize(
    ("text", "everything"),
    [
        ("[tool.pytest.ini_options]\nx = 1\n", True),
        ("[tool.pytest_env]\nx = '1'\n", True),
        ("[build-system]\nrequires = []\n", True),
        ("[project.optional-dependencies]\nx = []\n", True),
        ("[dependency-groups]\nx = []\n", True),
        ("[project.entry-points.x]\ny = 'shop:z'\n", True),
        ("[tool.poetry]\n", True),
        ("[tool.\n", True),
        ("[tool.ruff]\nline-length = 100\n", False),
        ("[tool.mypy]\nstrict = true\n", False),
        ("[project.urls]\nhome = 'x'\n", False),
        ("# only a remark\n", False),
    ],
)
def test_of_pyproject_toml_only_what_a_test_may_notice_reaches_every_test(
    text: str, everything: bool
) -> None:
    reader = "from pathlib import Path\nPath('pyproject.toml')\n"
    base = {**SHOP, "src/shop/late.py": reader}
    now = {**base, "pyproject.toml": base["pyproject.toml"] + text}
    readers = {"test_dynamic.py", "test_deep.py", "test_command.py"}
    assert names(selected(base, now)) == (ALL if everything else readers)


def test_a_linters_table_reaches_tests_that_start_it() -> None:
    base = {**SHOP, "src/shop/price.py": "import subprocess\nsubprocess.run(['ruff', 'check'])\n"}
    now = {**base, "pyproject.toml": base["pyproject.toml"] + "[tool.ruff]\n"}
    assert names(selected(base, now)) == {"test_price.py", "test_stock.py"}


def test_a_new_python_version_and_a_broken_base_reach_every_test() -> None:
    toml = SHOP["pyproject.toml"].replace("readme =", "requires-python = '>=3.11'\nreadme =")
    assert names(selected(SHOP, {**SHOP, "pyproject.toml": toml})) == ALL
    assert names(selected({**SHOP, "pyproject.toml": "["}, {**SHOP, "pyproject.toml": "[x"})) == ALL


@pytest.mark.parametrize(
    ("added", "text", "reached"),
    [
        ("uv.lock", "", ALL),
        ("pytest.ini", "", ALL),
        ("requirements-dev.txt", "", ALL),
        ("tests/deep/more/conftest.py", "", set()),
        ("tests/test_new.py", "", {"test_new.py"}),
        ("conftest.py", "", ALL),
        ("schema.sql", "", ALL),
        ("docs/guide.md", "", set()),
        (".github/workflows/ci.yml", "", set()),
        ("LICENSE", "", set()),
    ],
)
def test_a_new_file_reaches_what_may_see_it(added: str, text: str, reached: set[str]) -> None:
    assert names(selected(SHOP, {**SHOP, added: text})) == reached


def test_a_deleted_module_reaches_its_former_importers() -> None:
    assert names(selected(SHOP, without("src/shop/stock.py"))) == {"test_stock.py"}


def test_a_deleted_conftest_reaches_all_beneath_it() -> None:
    assert names(selected(SHOP, without("tests/deep/conftest.py"))) == {"test_deep.py"}


def test_a_renamed_module_reaches_the_importers_of_both_names() -> None:
    base = {**SHOP, "src/shop/price.py": "PRICE = 1\n", "tests/test_cost.py": "import shop.cost\n"}
    now = {path: text for path, text in base.items() if path != "src/shop/price.py"} | {
        "src/shop/cost.py": "PRICE = 1\n"
    }
    assert {"test_price.py", "test_stock.py", "test_cost.py"} <= names(selected(base, now))


@pytest.mark.parametrize(
    "extra",
    [
        {"tests/test_readme.py": "from pathlib import Path\nPath('README.md').read_text()\n"},
        {"tests/test_readme.py": "import glob\nglob.glob('*.md')\n"},
        {"pytest.ini": "[pytest]\naddopts = --doctest-glob=README.md\n"},
    ],
)
def test_a_document_that_something_names_counts_as_data(extra: dict[str, str]) -> None:
    base = {**SHOP, **extra}
    found = selected(base, {**base, "README.md": "changed"})
    assert found.everything
    assert found.selected


def test_a_plugin_of_the_project_reaches_every_test() -> None:
    base = {**SHOP, "pytest.ini": "[pytest]\naddopts = -p shop.lonely\n"}
    assert names(selected(base, {**base, "src/shop/lonely.py": "x = 1\n"})) == ALL
    named = {**SHOP, "tests/conftest.py": "pytest_plugins = ['shop.lonely']\n"}
    assert names(selected(named, {**named, "src/shop/lonely.py": "x = 1\n"})) == ALL
    entry = {
        **SHOP,
        "pyproject.toml": SHOP["pyproject.toml"] + '[project.entry-points.pytest11]\nx = "shop.lonely"\n',
    }
    assert names(selected(entry, {**entry, "src/shop/lonely.py": "x = 1\n"})) == ALL


def test_examples_in_text_files_run_after_any_change_of_code() -> None:
    base = {**SHOP, "tests/test_examples.txt": ">>> import shop\n"}
    assert names(selected(base, {**base, "src/shop/lonely.py": "x = 1\n"})) == {"test_examples.txt"}


def test_chosen_paths_restrict_the_change() -> None:
    now = {**SHOP, "src/shop/price.py": "x = 1\n", "src/shop/late.py": "x = 1\n"}
    assert names(selected(SHOP, now, only_paths=("src/shop/price.py",))) == {"test_price.py", "test_stock.py"}


def test_data_of_another_project_reaches_the_projects_that_import_it() -> None:
    base = {
        "a/pyproject.toml": "",
        "a/tests/test_a.py": "import blib.mod\n",
        "a/tests/test_self.py": "",
        "b/pyproject.toml": "",
        "b/blib/__init__.py": "",
        "b/blib/mod.py": "",
        "b/blib/data.csv": "",
        "b/tests/test_b.py": "import blib\n",
    }
    now = {**base, "b/blib/data.csv": "1"}
    assert names(selected(base, now, projects=("a", "b"))) == {"test_a.py"}
    assert names(selected(base, now, projects=("b", "a"))) == {"test_b.py"}


def test_reasons_name_what_changed() -> None:
    found = selected(SHOP, {**SHOP, "src/shop/late.py": "x = 1\n", "tests/test_price.py": "x = 1\n"})
    assert found.why["tests/test_price.py"] == "the file itself changed"
    assert found.why["tests/test_dynamic.py"] == "depends on src/shop/late.py, which changed"
    assert "through tests/deep/conftest.py" in found.why["tests/deep/test_deep.py"]
