"""Says what an interpreter is: `python -I -S interpreter_facts.py PREFIX`, one JSON object on standard output.

Runs without `site`, so nothing that is installed there, and nothing of a project, is executed.
"""

from __future__ import annotations

import json
import os
import site
import sys


def site_folders(prefix: str) -> list[str]:
    """The folders below a prefix that hold installed distributions, as they exist."""
    version = "%d.%d" % sys.version_info[:2]
    implementation = "python" if sys.implementation.name == "cpython" else sys.implementation.name
    wanted = [
        os.path.join(prefix, lib, implementation + version, "site-packages") for lib in ("lib", "lib64")
    ]
    wanted += site.getsitepackages([prefix])
    found: list[str] = []
    for folder in wanted:
        real = os.path.realpath(folder)
        if os.path.isdir(folder) and real not in [os.path.realpath(other) for other in found]:
            found.append(folder)
    return found


def main(prefix: str) -> dict[str, object]:
    """All there is to say of the interpreter that runs this."""
    return {
        "version": list(sys.version_info[:3]),
        "implementation": sys.implementation.name,
        "build": sys.version + " " + sys.platform,
        "executable": sys.executable,
        "base_prefix": sys.base_prefix,
        "site": site_folders(prefix or sys.prefix),
        "base_site": site_folders(sys.base_prefix),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
