"""Planted bugs: a copy of a module with one string of its source replaced, run in memory."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from inspect import getsource
from types import ModuleType

import pytest

Plant = Callable[[ModuleType, str, str], ModuleType]


@pytest.fixture
def plant() -> Iterator[Plant]:
    """Makes mutants; a replacement that is not found exactly once is an error of the test."""
    numbers = itertools.count(1)
    planted: list[str] = []

    def make(module: ModuleType, old: str, new: str) -> ModuleType:
        source = getsource(module)
        assert source.count(old) == 1, f"{source.count(old)} places in {module.__name__} read {old!r}"
        name = f"{module.__name__}_planted_{next(numbers)}"
        mutant = ModuleType(name)
        mutant.__file__ = module.__file__
        sys.modules[name] = mutant  # dataclasses look their module up
        planted.append(name)
        exec(compile(source.replace(old, new), name, "exec"), mutant.__dict__)
        return mutant

    yield make
    for name in planted:
        del sys.modules[name]
