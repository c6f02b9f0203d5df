"""What a change touches, and where it came from."""

from __future__ import annotations

from tests.unit.toolchains.python.world import context_of

from glideslope.ports.toolchain import Context
from glideslope.toolchains.python.change import (
    MOST_IMPORTERS,
    direct_importers,
    origins,
    touched_sources,
    vanished_sources,
)
from glideslope.toolchains.python.graph import ImportGraph
from glideslope.toolchains.python.module import Memo

LONG = "".join(f"line_{n} = {n}\n" for n in range(10))


def graph(context: Context) -> ImportGraph:
    return ImportGraph.of(context.now, context.projects, Memo(), context.base)


def test_changed_sources_of_the_project_are_touched() -> None:
    base = {"a.py": "1", "b.py": "1", "c.py": "1", "sub/d.py": "1"}
    now = {"a.py": "2", "b.py": "1", "new.pyi": "", "notes.md": "", "sub/d.py": "2"}
    context = context_of(now, base, roots=("", "sub"))
    assert touched_sources(context) == ("a.py", "new.pyi")
    assert vanished_sources(context.changes) == ("c.py",)


def test_named_paths_are_touched_whether_changed_or_not() -> None:
    context = context_of({"p/a.py": "1", "p/b.py": "2", "c.py": ""}, {"p/a.py": "1"}, only_paths=("p",))
    assert touched_sources(context) == ("p/a.py", "p/b.py")
    assert direct_importers(context, graph(context), touched_sources(context)) == ()


def test_importers_are_capped_and_those_of_vanished_modules_come_first() -> None:
    files = {f"m{n:02}.py": "import hub" for n in range(40)}
    base = {**files, "hub.py": "1", "gone.py": "", "zz.py": "import gone"}
    now = {**files, "hub.py": "2", "zz.py": "import gone"}
    context = context_of(now, base)
    found = direct_importers(context, graph(context), touched_sources(context))
    assert len(found) == MOST_IMPORTERS
    assert "zz.py" in found
    assert list(found) == sorted(found)


def test_a_file_that_moved_unchanged_or_edited_is_recognised() -> None:
    base = {"a.py": LONG, "b.py": LONG.replace("line", "other"), "x.py": "pass\n"}
    now = {
        "p/a.py": LONG,
        "p/b.py": LONG.replace("line", "other") + "more = 1\n",
        "y.py": "totally = 'new'\n",
    }
    assert origins(context_of(now, base)) == {"p/a.py": "a.py", "p/b.py": "b.py"}
    assert origins(context_of(now)) == {}
