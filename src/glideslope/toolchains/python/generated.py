"""Generated sources: is what a generator made as new as what it was made from?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from glideslope.model.paths import RepoPath, name
from glideslope.model.snapshot import Change, ChangeKind
from glideslope.ports.toolchain import Context
from glideslope.toolchains.python.change import considered

_PRODUCTS = {
    ".proto": ("{}_pb2.py", "{}_pb2.pyi", "{}_pb2_grpc.py"),
    ".pyx": ("{}.c", "{}.cpp", "{}.*.so", "{}.so"),
    ".pxd": ("{}.c", "{}.cpp", "{}.*.so", "{}.so"),
    ".ui": ("ui_{}.py", "{}_ui.py"),
    ".qrc": ("{}_rc.py", "rc_{}.py"),
    ".g4": ("{}Lexer.py", "{}Parser.py"),
    ".fbs": ("{}_generated.py",),
}
"""What generators make of a source, by its suffix; `{}` stands for its stem, `.*.` for a tag."""


def stale_products(context: Context) -> tuple[tuple[RepoPath, RepoPath], ...]:
    """Pairs of a changed source and a product of it that did not change, sorted.

    Without a base nothing has changed yet.
    """
    if context.base is None:
        return ()
    changed = {change.path for change in context.changes}
    sources = [change for change in considered(context) if _is_source(change)]
    if not sources:
        return ()
    by_name: dict[str, list[RepoPath]] = {}
    for path in context.now.entries:
        by_name.setdefault(_untagged(name(path)), []).append(path)
    pairs = (
        (change.path, product)
        for change in sources
        for product in _products(change.path, by_name)
        if product not in changed
    )
    return tuple(sorted(pairs))


def _is_source(change: Change) -> bool:
    return change.kind is ChangeKind.MODIFIED and name(change.path).rpartition(".")[2] in {
        suffix[1:] for suffix in _PRODUCTS
    }


def _products(source: RepoPath, by_name: dict[str, list[RepoPath]]) -> Iterator[RepoPath]:
    stem, _, suffix = name(source).rpartition(".")
    patterns: Iterable[str] = _PRODUCTS[f".{suffix}"]
    for pattern in patterns:
        yield from by_name.get(_untagged(pattern.format(stem)), ())


def _untagged(text: str) -> str:
    """`x.cpython-311-x86_64-linux-gnu.so` and `x.*.so` as `x.so`."""
    parts = text.split(".")
    return f"{parts[0]}.so" if len(parts) > 1 and parts[-1] == "so" else text
