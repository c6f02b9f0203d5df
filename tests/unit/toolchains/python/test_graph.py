"""Who imports whom; where in doubt, an edge exists."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.unit.toolchains.python.world import TextTree, project

from glideslope.model.paths import RepoPath
from glideslope.toolchains.python.graph import ImportGraph
from glideslope.toolchains.python.module import Memo
from glideslope.toolchains.python.universe import location


def graph(
    files: Mapping[str, str],
    base: Mapping[str, str] | None = None,
    roots: tuple[str, ...] = ("",),
    **links: object,
) -> ImportGraph:
    tree = TextTree(files, links=[str(link) for link in links.values()])
    before = None if base is None else TextTree(base)
    return ImportGraph.of(tree, tuple(project(root) for root in roots), Memo(), before)


def importers(found: ImportGraph, *paths: str) -> set[str]:
    return set(found.importers(RepoPath(path) for path in paths))


def closure(found: ImportGraph, *paths: str, typing: bool = True) -> set[str]:
    return set(found.closure((RepoPath(path) for path in paths), typing=typing))


@pytest.mark.parametrize(
    ("module", "importer", "text"),
    [
        ("m.py", "a.py", "import m"),
        ("pkg/m.py", "a.py", "import pkg.m"),
        ("pkg/m.py", "a.py", "from pkg import m"),
        ("pkg/m.py", "a.py", "from pkg.m import x"),
        ("src/pkg/m.py", "tests/test_a.py", "import pkg.m"),
        ("src/ns/pkg/m.py", "tests/test_a.py", "from ns.pkg import m"),
        ("tests/helper.py", "tests/test_a.py", "import helper"),
        ("tests/helper.py", "tests/deep/test_a.py", "import helper"),
        ("tests/helper.py", "tests/test_a.py", "from tests import helper"),
        ("tests/json.py", "tests/test_a.py", "import json"),
        ("pkg/m.py", "pkg/a.py", "from . import m"),
        ("pkg/m.py", "pkg/deep/a.py", "from ..m import x"),
        ("pkg/m.pyi", "a.py", "import pkg.m"),
        ("pkg/m/__init__.py", "a.py", "import pkg.m"),
        ("pkg/m.py", "a.py", "importlib.import_module('pkg.m')"),
        ("pkg/m.py", "a.py", "def f():\n    import pkg.m"),
        ("pkg/m.py", "a.py", "try:\n    import pkg.m\nexcept ImportError: ..."),
        ("pkg/m.py", "a.py", "if TYPE_CHECKING:\n    import pkg.m"),
    ],
)
def test_an_import_statement_makes_a_direct_edge(module: str, importer: str, text: str) -> None:
    found = graph({"pkg/__init__.py": "", module: "", importer: text})
    assert importers(found, module) == {importer}


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("pkg/m.py", "patch('pkg.m.attribute')"),
        ("pkg/m.py", "import_module(f'pkg.{name}')"),
        ("pkg/m.py", "from pkg import *"),
        ("pkg/__main__.py", "run([python, '-m', 'pkg'])"),
        ("scripts/go.py", "run([python, 'scripts/go.py'])"),
        ("scripts/go.py", "run([python, HERE / 'go.py'])"),
        ("pkg/m.py", "run([python, '-c', 'import pkg.m'])"),
    ],
)
def test_a_string_makes_an_edge_that_is_not_direct(module: str, text: str) -> None:
    found = graph({"pkg/__init__.py": "", "pkg/m.py": "", module: "", "a.py": text})
    assert importers(found, module) == set()
    assert closure(found, module) == {module, "a.py"}


def test_the_packages_on_the_way_run_too() -> None:
    found = graph({"a/__init__.py": "", "a/b/__init__.py": "", "a/b/c.py": "", "t.py": "import a.b.c"})
    assert closure(found, "a/__init__.py") == {"a/__init__.py", "a/b/__init__.py", "a/b/c.py", "t.py"}
    assert importers(found, "a/__init__.py") == set()


def test_a_closure_goes_all_the_way() -> None:
    found = graph({"a.py": "", "b.py": "import a", "c.py": "import b", "d.py": "import c", "e.py": ""})
    assert closure(found, "a.py") == {"a.py", "b.py", "c.py", "d.py"}


def test_imports_for_type_checkers_can_be_left_out() -> None:
    found = graph({"a.py": "", "b.py": "if TYPE_CHECKING:\n    import a\n", "c.py": "import b"})
    assert closure(found, "a.py") == {"a.py", "b.py", "c.py"}
    assert closure(found, "a.py", typing=False) == {"a.py"}


def test_a_package_that_loads_lazily_reaches_all_its_modules() -> None:
    found = graph({"p/__init__.py": "def __getattr__(name): ...", "p/m.py": "", "t.py": "import p"})
    assert "t.py" in closure(found, "p/m.py")


def test_a_module_of_the_standard_library_is_not_taken_for_a_script_far_away() -> None:
    found = graph({"tools/json.py": "", "pkg/__init__.py": "import json", "tools/run.py": "import json"})
    assert importers(found, "tools/json.py") == {"tools/run.py"}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", "[tool.pytest.ini_options]\npythonpath = ['code']"),
        ("pyproject.toml", "[tool.setuptools.packages.find]\nwhere = ['code']"),
        ("pyproject.toml", "[tool.setuptools.package-dir]\n'' = 'code'"),
        ("pyproject.toml", "[[tool.poetry.packages]]\ninclude = 'pkg'\nfrom = 'code'"),
        ("pyproject.toml", "[tool.hatch.build.targets.wheel]\npackages = ['code/pkg']"),
        ("setup.cfg", "[options]\npackage_dir =\n    = code\n"),
        ("setup.cfg", "[options.packages.find]\nwhere = code\n"),
        ("tox.ini", "[pytest]\npythonpath = code\n"),
    ],
)
def test_declared_folders_hold_top_level_packages(file: str, text: str) -> None:
    found = graph({file: text, "code/pkg/__init__.py": "", "code/pkg/m.py": "", "t/t.py": "import pkg.m"})
    assert importers(found, "code/pkg/m.py") == {"t/t.py"}


def test_a_package_may_live_in_a_folder_of_another_name() -> None:
    toml = "[tool.setuptools.package-dir]\nshop = 'source'"
    found = graph(
        {"pyproject.toml": toml, "source/__init__.py": "", "source/m.py": "", "t.py": "import shop.m"}
    )
    assert importers(found, "source/m.py") == {"t.py"}


def test_projects_of_a_workspace_see_each_other() -> None:
    files = {"one/src/a/__init__.py": "", "two/src/b/__init__.py": "import a"}
    assert importers(graph(files, roots=("one", "two")), "one/src/a/__init__.py") == {"two/src/b/__init__.py"}


def test_importers_of_a_vanished_module_keep_their_edge() -> None:
    base = {"p/__init__.py": "", "p/gone.py": "", "a.py": "from p import gone", "b.py": "import p.gone"}
    now = {path: text for path, text in base.items() if path != "p/gone.py"}
    found = graph(now, base)
    assert found.vanished == {"p/gone.py"}
    assert importers(found, "p/gone.py") == {"a.py", "b.py"}
    assert {(missing.path, missing.module) for missing in found.missing(found.files)} == {
        ("a.py", "p.gone"), ("b.py", "p.gone"),
    }  # fmt: skip


def test_a_module_that_became_a_package_or_a_name_is_not_missing() -> None:
    base = {"p/__init__.py": "", "p/gone.py": "", "a.py": "from p import gone"}
    as_package = {"p/__init__.py": "", "p/gone/__init__.py": "", "a.py": "from p import gone"}
    as_name = {"p/__init__.py": "gone = 1", "a.py": "from p import gone"}
    as_namespace = {"p/__init__.py": "", "p/gone/x.py": "", "a.py": "import p.gone"}
    for now in (as_package, as_name, as_namespace):
        found = graph(now, base)
        assert [*found.missing(found.files)] == []


def test_only_imports_of_our_own_modules_can_be_missing() -> None:
    text = (
        "import third.party\nimport p.nothere\nfrom .no import x\nimport p\n"
        "try:\n    import p.optional\nexcept ImportError: ...\nif TYPE_CHECKING:\n    import p.typing\n"
    )
    found = graph({"p/__init__.py": "", "p/m.py": text})
    assert [(missing.module, missing.imported.line) for missing in found.missing(found.files)] == [
        ("p.nothere", 2), (".no", 3),
    ]  # fmt: skip


def test_a_package_at_the_root_of_the_workspace_ends_the_walk() -> None:
    found = graph({"__init__.py": "", "a.py": "from . import b", "b.py": ""})
    assert importers(found, "b.py") == {"a.py"}


def test_a_symbolic_link_depends_on_what_it_points_to() -> None:
    tree = TextTree({"src/m.py": "", "link.py": "src/m.py", "t.py": "import link"}, links=["link.py"])
    found = ImportGraph.of(tree, (project(),), Memo())
    assert set(found.closure([RepoPath("src/m.py")])) == {"src/m.py", "link.py", "t.py"}
    assert found.facts(RepoPath("link.py")).fault is None


def test_edges_are_found_again_when_a_file_appears() -> None:
    memo = Memo()
    before = TextTree({"p/__init__.py": "", "a.py": "from p import m"})
    after = TextTree({"p/__init__.py": "", "a.py": "from p import m", "p/m.py": ""})
    assert set(ImportGraph.of(before, (project(),), memo).closure([RepoPath("p/m.py")])) == {"p/m.py"}
    found = ImportGraph.of(after, (project(),), memo, before)
    assert set(found.closure([RepoPath("p/m.py")])) == {"p/m.py", "a.py"}


def test_edges_of_an_unchanged_file_are_not_looked_for_twice() -> None:
    memo = Memo()
    one, two = TextTree({"a.py": "import b", "b.py": ""}), TextTree({"a.py": "import b", "b.py": "x = 1"})
    first = ImportGraph.of(one, (project(),), memo)
    second = ImportGraph.of(two, (project(),), memo)
    assert first.edges(RepoPath("a.py")) is second.edges(RepoPath("a.py"))


def test_a_location_is_what_a_module_and_its_package_have_in_common() -> None:
    assert [location(path) for path in ("a/b.py", "a/b.pyi", "a/b/__init__.py", "__init__.py")] == [
        "a/b", "a/b", "a/b", "",
    ]  # fmt: skip
