# The developer's commands. `make help` lists them. Everything goes into .venv, build/ and .stamps/ of this folder.
#
# Stamps in .stamps/ say what is done already; a stage runs again when something it depends on is newer. The package is
# installed in place: Python code is live at once, the C++ core is built into src/headrace/native/ and built again
# whenever a file of native/ changes, so tests always see this tree.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

PYTHON ?= python3
JOBS ?= 2
PY := .venv/bin/python
STAGE := @.ci/stage
PIP := $(PY) -m pip install --disable-pip-version-check --constraint constraints.txt
INPLACE := env SKBUILD_WHEEL_CMAKE=false SKBUILD_WHEEL_PY_API=py3 SKBUILD_EDITABLE_MODE=inplace
CMAKE := .venv/bin/cmake
CORE := CMakeLists.txt $(shell find native)

# A .venv that went takes its stamps along.
ifeq ($(wildcard $(PY)),)
$(shell rm -rf .stamps build/core build/sanitize)
endif

.PHONY: help build demo test test-all check bench bench-full clean

help:
	@echo 'make demo      make a small HDF5 dataset, plan it, read it, compare plan and measurement (no torch)'
	@echo 'make test      the tests, with torch'
	@echo 'make test-all  and those that need more packages, rights or minutes; says what is missing'
	@echo 'make check     lint, format, types, the core under sanitizers, stubs'
	@echo 'make bench     this loader beside others, in under ten minutes; make bench-full: everything, hours'
	@echo 'make build     only build the C++ core into src/headrace/native/'
	@echo 'make clean     remove .venv, build/ and everything that was built'

build: .stamps/core

demo: .stamps/core .stamps/demo
	@$(PY) -m headrace.cli demo

test: .stamps/core .stamps/torch .stamps/test
	@$(PY) -m pytest -m 'not heavy'

# pytest ends with 5 when no test was collected; that is no failure of this target.
test-all: .stamps/core .stamps/torch .stamps/test
	@$(PY) -m pytest -m heavy -rs; code=$$?; \
	if [ $$code -eq 5 ]; then echo 'no test is marked heavy'; else exit $$code; fi

check: .stamps/core .stamps/check .stamps/test .stamps/torch
	$(STAGE) 'lint' .venv/bin/ruff check .
	$(STAGE) 'format' .venv/bin/ruff format --check .
	$(STAGE) 'types' .venv/bin/mypy
	$(STAGE) 'stubs of the core' $(PY) .ci/stubs.py
	@.ci/sanitize $(JOBS)

# Conditions need root and cgroups; what cannot be had is left out with the reason.
bench: .stamps/core .stamps/torch .stamps/test
	@$(PY) benchmarks/matrix.py --quick

bench-full: .stamps/core .stamps/torch .stamps/test
	@$(PY) benchmarks/matrix.py --full --peers --rounds 3 --epochs 3 --seconds 300

clean:
	@rm -rf .venv .stamps build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis src/headrace/native/*.so
	@find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo 'removed .venv, build/ and everything that was built'

.stamps/venv:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Headrace needs Python 3.11 or newer, but $(PYTHON) is " + sys.version.split()[0] + ": install one and say make PYTHON=python3.12")'
	@command -v $${CXX:-g++} >/dev/null || { echo 'Headrace needs a C++ compiler, and g++ was not found: install it, or name another with CXX='; exit 1; }
	$(STAGE) 'making .venv' $(PYTHON) -m venv .venv
	@touch $@

.stamps/tools: .stamps/venv constraints.txt pyproject.toml
	@$(PY) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], "cmake", "ninja", sep="\n")' >.stamps/tools.txt
	$(STAGE) 'installing the build tools' $(PIP) --requirement .stamps/tools.txt
	@touch $@

.stamps/core: .stamps/tools $(CORE)
	$(STAGE) 'configuring the C++ core' $(CMAKE) -S . -B build/core -G Ninja -DHEADRACE_IN_TREE=ON \
		-DCMAKE_MAKE_PROGRAM=$(CURDIR)/.venv/bin/ninja -DPython_EXECUTABLE=$(CURDIR)/$(PY)
	$(STAGE) 'building the C++ core' $(CMAKE) --build build/core -j $(JOBS)
	@touch $@

.stamps/demo: .stamps/tools
	$(STAGE) 'installing headrace with h5py, typer, rich' $(INPLACE) $(PIP) --no-build-isolation --editable '.[hdf5,cli]'
	@touch $@

.stamps/torch: .stamps/tools
	$(STAGE) 'installing torch (large, once)' $(PIP) 'torch==$(shell sed -n 's/^torch==//p' constraints.txt)'
	@touch $@

.stamps/test: .stamps/tools
	$(STAGE) 'installing headrace with its test tools' $(INPLACE) $(PIP) --no-build-isolation --editable '.[test]'
	@touch $@

.stamps/check: .stamps/tools
	$(STAGE) 'installing ruff and mypy' $(INPLACE) $(PIP) --no-build-isolation --editable '.[check]'
	@touch $@
