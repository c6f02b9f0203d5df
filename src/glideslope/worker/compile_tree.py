"""Compiles the modules of a tree for the interpreter that runs this; standard library only.

Usage: compile_tree.py TREE SHOWN_AT, with NUL-separated relative paths on standard input.
Executes none of the modules. A file that does not compile is passed over: the syntax gate speaks
of it. The bytecode is checked by the digest of its source, so an edit within the same second and
of the same size can never run old code.
"""

import importlib.util
import os
import py_compile
import sys
import warnings

HEADER_BYTES = 16
CHECKED_HASH_FLAGS = b"\x03\x00\x00\x00"


def is_fresh(source: bytes, cached: str) -> bool:
    """Whether bytecode of exactly this source is there already."""
    try:
        with open(cached, "rb") as file:
            header = file.read(HEADER_BYTES)
    except OSError:
        return False
    wanted = importlib.util.MAGIC_NUMBER + CHECKED_HASH_FLAGS + importlib.util.source_hash(source)
    return header == wanted


def compile_one(tree: str, shown_at: str, path: str) -> None:
    """Compiles one module of the tree, unless that was done."""
    full = os.path.join(tree, path)
    cached = importlib.util.cache_from_source(full)
    if os.path.islink(full) or os.path.islink(os.path.dirname(cached)):
        return
    with open(full, "rb") as file:
        source = file.read()
    if not is_fresh(source, cached):
        py_compile.compile(
            full,
            cfile=cached,
            dfile=os.path.join(shown_at, path),
            doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH,
        )


def main() -> int:
    """Compiles what standard input names."""
    tree, shown_at = sys.argv[1:3]
    warnings.simplefilter("ignore")
    for raw in sys.stdin.buffer.read().split(b"\0"):
        if raw:
            try:
                compile_one(tree, shown_at, os.fsdecode(raw))
            except (OSError, ValueError, RecursionError, MemoryError, py_compile.PyCompileError):
                continue
    return 0


if __name__ == "__main__":
    sys.exit(main())
