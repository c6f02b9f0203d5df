"""Compiles source files with the grammar of the interpreter it runs on; runs none of them.

`boot.py syntax_gate REPORT_FD`, paths relative to the working directory on standard input, each
followed by a NUL. Reports one JSON line for each file that does not compile:
`{"path", "line", "column", "message"}`.
"""

import json
import os
import sys
import warnings
from typing import Any, Dict, List, Optional


def fault(source: bytes) -> Optional[Dict[str, Any]]:
    """What is wrong with a source file, or None. Lines and columns count from 1."""
    try:
        compile(source, "<source>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return {
            "line": max(error.lineno or 1, 1),
            "column": max(error.offset or 1, 1),
            "message": error.msg or "invalid syntax",
        }
    except (ValueError, RecursionError, MemoryError) as error:
        return {"line": 1, "column": 1, "message": str(error) or "cannot be parsed"}
    return None


def main(arguments: List[str]) -> int:
    """Reports the faults of the files named on standard input."""
    warnings.simplefilter("ignore")
    paths = [path for path in sys.stdin.buffer.read().split(b"\0") if path]
    with os.fdopen(int(arguments[0]), "w", encoding="utf-8", errors="surrogateescape") as report:
        for path in paths:
            with open(path, "rb") as file:
                found = fault(file.read())
            if found is not None:
                found["path"] = os.fsdecode(path)
                report.write(json.dumps(found) + "\n")
    return 0
