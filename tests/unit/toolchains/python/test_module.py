"""What a source file says without being run."""

from __future__ import annotations

import pytest
from tests.unit.toolchains.python.world import TextTree

from glideslope.errors import UnknownId
from glideslope.model.paths import RepoPath
from glideslope.toolchains.python.module import (
    OPAQUE,
    Memo,
    ModuleFacts,
    SyntaxFault,
    compile_fault,
    parse,
    read_encoding,
    read_facts,
)


def facts(text: str) -> ModuleFacts:
    return read_facts(text.encode())


def modules(text: str) -> list[tuple[int, str, tuple[str, ...]]]:
    return [(entry.level, entry.module, entry.names) for entry in facts(text).imports]


def test_every_form_of_import_is_found() -> None:
    text = "import a.b as c, d\nfrom e import f, g as h\nfrom . import i\nfrom ..j import *\n"
    assert modules(text) == [
        (0, "a.b", ()), (0, "d", ()), (0, "e", ("f", "g")), (1, "", ("i",)), (2, "j", ("*",)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "if x:\n  import m\n",
        "with x as y:\n  import m\n",
        "for i in j:\n  pass\nelse:\n  import m\n",
        "while x:\n  import m\n",
        "match x:\n  case [a, *b]:\n    import m\n",
        "class A:\n  import m\n",
        "try:\n  pass\nfinally:\n  import m\n",
    ],
)
def test_imports_inside_statements_run_when_the_module_is_loaded(text: str) -> None:
    (imported,) = facts(text).imports
    assert (imported.module, imported.at_load, imported.guarded) == ("m", True, False)


def test_imports_that_do_not_run_at_load_are_told_apart() -> None:
    text = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import a\nelse:\n    import b\n"
        "def f():\n    import c\n"
        "try:\n    import d\nexcept ImportError:\n    import e\n"
        "try:\n    import g\nexcept KeyError:\n    pass\n"
    )
    found = {entry.module: entry for entry in facts(text).imports}
    assert (found["a"].typing_only, found["b"].typing_only) == (True, False)
    assert (found["c"].in_function, found["c"].at_load) == (True, False)
    assert [found[name].guarded for name in "deg"] == [True, True, False]


@pytest.mark.parametrize(
    "call",
    ["importlib.import_module('m')", "__import__('m')", "pytest.importorskip('m')", "import_module('m')"],
)
def test_dynamic_imports_of_constants_are_imports(call: str) -> None:
    (imported,) = facts(call).imports
    assert (imported.module, imported.dynamic, imported.at_load) == ("m", True, False)


def test_a_relative_dynamic_import_is_resolved_against_its_package() -> None:
    assert modules("import_module('..x', 'a.b.c')") == [(0, "a.b.x", ())]
    assert modules("import_module('.x', package='a')") == [(0, "a.x", ())]
    assert modules("import_module('.x', __package__)") == [(1, "x", ())]


def test_a_computed_import_may_load_anything_nearby() -> None:
    assert facts("import_module(name)").scans
    assert facts("import_module(f'pkg.{name}')").prefixes == {"pkg"}
    assert facts("import_module('pkg.' + name)").prefixes == {"pkg"}
    assert not facts("find_spec(name)").scans


def test_strings_that_could_name_modules_are_kept() -> None:
    assert facts("patch('pkg.mod.attr')").mentions == {"pkg.mod.attr"}
    assert facts("x = 'pkg.mod:main'").mentions == {"pkg.mod:main"}
    assert facts("run('tools/go.py')").mentions == {"tools/go.py"}
    assert facts("x = 'word'").mentions == frozenset()
    assert "word" in facts("run([python, '-m', 'word'])").mentions
    assert "word" in facts("pytest_plugins = ['word']").mentions
    assert facts("run([python, '-c', 'import a.b; go()'])").mentions == {"a.b"}


def test_a_docstring_counts_only_for_its_examples() -> None:
    assert facts('"""Says: import a"""').mentions == frozenset()
    assert facts('"""\n>>> import a\n"""').mentions == {"a"}


def test_names_bound_at_the_top_are_known() -> None:
    text = (
        "import a.b\nfrom c import d as e\nf: int = 1\n(g, [h]) = x\ndef i(): j = 1; global k\n"
        "class L: m = 1\nfor n in x: pass\nwith x as o: pass\nif x:\n  p = 1\nq = (r := 1)\n"
    )
    assert facts(text).names == frozenset(["a", "e", "f", "g", "h", "i", "k", "L", "n", "o", "p", "q", "r"])


def test_whether_a_name_exists_may_be_unknowable() -> None:
    assert (facts("x = 1").binds("x"), facts("x = 1").binds("y")) == (True, False)
    for text in ("from a import *", "def __getattr__(name): ...", "import_module(name)", "def f(:"):
        assert facts(text).binds("y") is None


def test_a_file_that_does_not_parse_is_still_searched() -> None:
    found = facts("import a, b.c\nfrom .d import e\ndef f(:\n")
    assert found.fault == SyntaxFault(3, 7, "invalid syntax")
    assert [(entry.level, entry.module) for entry in found.imports] == [(0, "a"), (0, "b.c"), (1, "d")]


@pytest.mark.parametrize("source", [b"x = 1\0", b"\xff = 1", b"# coding: nonsense\n", b"(" * 3000])
def test_no_content_breaks_the_reader(source: bytes) -> None:
    assert isinstance(parse(source), SyntaxFault)
    assert compile_fault(source) is not None
    assert read_facts(source).fault is not None


def test_compiling_is_stricter_than_parsing() -> None:
    assert not isinstance(parse(b"return 1"), SyntaxFault)
    fault = compile_fault(b"x = 1\nreturn 1")
    assert fault is not None
    assert (fault.line, fault.message) == (2, "'return' outside function")
    assert compile_fault(b"assert (1, 'always true')") is None


def test_the_declared_encoding_is_read() -> None:
    assert read_encoding(b"# -*- coding: latin-1 -*-\n") == "iso-8859-1"
    assert facts("x = 1").encoding == "utf-8"


def test_facts_are_read_once_per_content() -> None:
    reads: list[str] = []

    class Counting(TextTree):
        def read(self, path: RepoPath) -> bytes:
            reads.append(path)
            return super().read(path)

    memo = Memo(limit=4)
    tree = Counting({"a.py": "import x", "b.py": "import x", "c.py": "import y"})
    assert memo.facts(tree, RepoPath("a.py")) is memo.facts(tree, RepoPath("b.py"))
    memo.facts(tree, RepoPath("c.py"))
    assert reads == ["a.py", "c.py"]


def test_content_that_is_not_stored_is_opaque() -> None:
    class Gone(TextTree):
        def read(self, path: RepoPath) -> bytes:
            raise UnknownId("not stored: verify again")

    assert Memo().facts(Gone({"a.py": "x = 1"}), RepoPath("a.py")) is OPAQUE


def test_a_memo_forgets_the_oldest() -> None:
    memo = Memo(limit=4)
    tree = TextTree({f"{n}.py": f"x = {n}" for n in range(9)})
    first = memo.facts(tree, RepoPath("0.py"))
    for n in range(9):
        memo.facts(tree, RepoPath(f"{n}.py"))
    again = memo.facts(tree, RepoPath("0.py"))
    assert again == first
    assert again is not first


def test_equal_trees_have_equal_digests() -> None:
    memo = Memo()
    one, same, other = TextTree({"a": "1"}), TextTree({"a": "1"}), TextTree({"a": "2"})
    assert memo.digest(one) == memo.digest(same) == memo.digest(one)
    assert memo.digest(one) != memo.digest(other)
