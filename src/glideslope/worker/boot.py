"""Starts a program of this folder: `python -I -S boot.py PROGRAM ARGUMENT...`.

The folder becomes a package under a private name, because the interpreter that runs it may not
have this distribution on its path, and because a project may have a module called `launcher`.
"""

import importlib
import importlib.util
import os
import sys

PACKAGE = "_glideslope_worker"


def load(program: str) -> object:
    """Imports one module of this folder under the private package name.

    Args:
        program: Name of a module of this folder, without its suffix.

    Returns:
        The module.

    Raises:
        ImportError: There is no such program.
    """
    folder = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location(
        PACKAGE, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        raise ImportError("no worker package in " + folder)
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)
    return importlib.import_module(PACKAGE + "." + program)


if __name__ == "__main__":
    # A compiled copy beside our own sources would be a write nobody asked for.
    sys.dont_write_bytecode = True
    sys.exit(load(sys.argv[1]).main(sys.argv[2:]))  # type: ignore[attr-defined]
