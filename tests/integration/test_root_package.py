"""The root package costs nothing until a name is asked for."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import glideslope

pytestmark = pytest.mark.process


def modules_after(statement: str) -> set[str]:
    program = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_root_imports_nothing_else_of_ours() -> None:
    loaded = modules_after("import glideslope")
    assert "glideslope" in loaded
    assert not {name for name in loaded if name.split(".")[0] in ("anyio", "asyncio", "click", "msgspec")}
    assert {name for name in loaded if name.startswith("glideslope.")} == set()


def test_a_name_loads_its_own_module_and_no_surface() -> None:
    loaded = modules_after("import glideslope; glideslope.Verdict.GREEN")
    assert "glideslope.model.result" in loaded
    assert not {name for name in loaded if name.startswith(("glideslope.surfaces", "glideslope.engine"))}


def test_every_public_name_resolves_and_checkers_see_the_same_names() -> None:
    for name in glideslope.__all__:
        assert getattr(glideslope, name) is not None
    assert set(glideslope.__all__) <= set(dir(glideslope))
    tree = ast.parse(Path(glideslope.__file__).read_text())
    (guarded,) = [node for node in tree.body if isinstance(node, ast.If)]
    imported = {alias.name for node in guarded.body for alias in node.names}
    assert imported == set(glideslope.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        glideslope.nothing  # noqa: B018
