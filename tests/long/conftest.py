"""The modules beside this one are imported by the tests here and by `benchmarks`, as `tests.long`."""

import sys
from pathlib import Path

ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.append(ROOT)
