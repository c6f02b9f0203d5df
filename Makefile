# Everything here does its own set-up: `make demo` and `make test` work in a fresh clone.
# Needed beforehand: Python 3.11 or later with venv, git, and this make.

VENV := .venv
RUN := $(VENV)/bin/python

# The first interpreter that is new enough and can make a virtual environment.
# PYTHON=/path/to/python overrides the choice.
CANDIDATES := $(if $(PYTHON),$(PYTHON),python3.13 python3.12 python3.11 python3)
CAN_RUN := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))

# The environment is bound to this folder (an editable install holds its path),
# so a copied or moved checkout makes its own.
READY := $(VENV)/.ready
PLACE := $(VENV)/.place
ifneq ($(file < $(PLACE)),$(shell pwd -P))
.PHONY: $(READY)
endif

.DEFAULT_GOAL := help
.PHONY: help setup demo check format test test-long bench lock clean

help:
	@echo "make demo       verify an example project through its edits, from set-up to verdicts"
	@echo "make test       all tests but the long ones        (ARGS='-k name' is passed on)"
	@echo "make check      ruff, format, mypy, layer contracts"
	@echo "make format     rewrite the code as the formatter wants it"
	@echo "make test-long  real projects                       (PROJECTS='click jinja2' narrows)"
	@echo "make bench      measurements against the plain tools (PROJECTS='click' narrows)"
	@echo "make lock       renew requirements/*.txt            (needs uv)"
	@echo "make clean      remove the environment and caches"

setup: $(READY)

$(READY): requirements/build.txt requirements/dev.txt pyproject.toml
	@command -v git >/dev/null || { echo "git is missing: on Debian, apt-get install git" >&2; exit 1; }
	@found=; for python in $(CANDIDATES); do \
	  if "$$python" -c '$(CAN_RUN)' >/dev/null 2>&1; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  if [ -n "$(PYTHON)" ]; then \
	    echo "PYTHON=$(PYTHON) is not a Python 3.11 or later with venv" >&2; \
	  elif python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    echo "Python is there but cannot make virtual environments: on Debian, apt-get install python3-venv" >&2; \
	  else \
	    echo "no Python 3.11 or later (tried: $(CANDIDATES)): on Debian, apt-get install python3 python3-venv, or PYTHON=/path/to/python" >&2; \
	  fi; exit 1; \
	fi; \
	echo "setting up $(VENV) with $$found; this downloads packages and takes about a minute"; "$$found" -m venv --clear $(VENV)
	@$(RUN) -m pip install -qq --disable-pip-version-check --require-hashes -r requirements/build.txt
	@$(RUN) -m pip install -qq --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(RUN) -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@pwd -P > $(PLACE); : > $@

demo: $(READY)
	@$(RUN) examples/demo.py

check: $(READY)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports

format: $(READY)
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

test: $(READY)
	$(RUN) -m pytest $(ARGS)

test-long: $(READY)
	GLIDESLOPE_TEST_PROJECTS="$(PROJECTS)" $(RUN) -m pytest -m long $(ARGS)

bench: $(READY)
	GLIDESLOPE_TEST_PROJECTS="$(PROJECTS)" $(RUN) -m benchmarks $(ARGS)

# --universal: one lock for every platform and Python; hashes of every file of a release.
LOCK = $(UV) pip compile --universal --python-version 3.11 --generate-hashes --no-header \
  --no-emit-index-url --no-emit-find-links --no-config --quiet
UV ?= uv

lock:
	@command -v $(UV) >/dev/null || { echo "uv is missing: pip install uv, or UV=/path/to/uv" >&2; exit 1; }
	$(LOCK) requirements/build.in -o requirements/build.txt
	$(LOCK) pyproject.toml -o requirements/runtime.txt
	$(LOCK) pyproject.toml --extra dev -c requirements/runtime.txt -o requirements/dev.txt

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
