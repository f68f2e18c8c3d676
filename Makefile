# `make demo` shows the main job on a real graph; `make test` tests every behaviour. Both set up .venv first.
PYTHON ?= python3
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# PyTorch's CPU build is a tenth of PyPI's, which has CUDA. Without an NVIDIA driver pip looks for it in
# PyTorch's own index too, if that answers within 10 seconds; a machine's own settings of pip stay.
CPU_TORCH := https://download.pytorch.org/whl/cpu
CPU_INDEX = { [ -e /proc/driver/nvidia ] || command -v nvidia-smi > /dev/null || $(BIN)/python -c \
  'import signal, urllib.request as web; signal.alarm(10); web.urlopen("$(CPU_TORCH)/torch/"); \
  print("--extra-index-url $(CPU_TORCH)")'; } 2> /dev/null

# Sources are compiled once, not at every start of a program, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all check lint types kernels durations coverage hostile bench gpu docs wheels format clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("plancc needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; name another: make PYTHON=python3.12 ...") if sys.version_info < (3, 11) else None'
	@$(BIN)/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@echo "installing what pyproject.toml names into $(VENV)"
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check $$($(CPU_INDEX)) -c constraints.txt -e '.[test]'
	@touch $@

FIRST := $(VENV)/.first
$(FIRST): $(STAMP)
	@echo "compiling the kernels of the first commands, once"
	@$(BIN)/plancc warm-up --first
	@touch $@

demo: $(FIRST)
	PATH="$(CURDIR)/$(BIN):$$PATH" sh docs/demo.sh

PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

# every behaviour, every finding ever made
test: $(STAMP)
	@$(MAKE) --no-print-directory -j2 lint types kernels
	$(PYTEST)

# besides: new random attacks, signals at random moments, tutorials, benchmark kits, tool chains that
# exports are for, extreme shapes, full products of parameters
test-all: $(STAMP)
	@$(MAKE) --no-print-directory -j2 lint types kernels
	$(PYTEST) -m ""

# for a newcomer: one test of every file
check: $(STAMP)
	@$(MAKE) --no-print-directory -j2 lint types kernels
	$(PYTEST) --one-of-each

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy

# before the workers start, so that they need not wait for each other; again where a source has changed
KERNELS := $(VENV)/.kernels
kernels: $(KERNELS)
$(KERNELS): $(shell grep -rl --include='*.py' njit plancc runtime) | $(STAMP)
	$(BIN)/plancc warm-up --quiet
	@touch $@

# where the time of `make test` goes, by file and kind
durations: $(STAMP)
	$(PYTEST) --durations-table=tests/durations.tsv

# branches of the packages that `make test` takes, processes that it starts included; the data
# are also what `python -m benchmarks mutations` reads
coverage: $(STAMP)
	rm -rf build/coverage && mkdir -p build/coverage
	-$(BIN)/coverage run -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --durations=0 \
	  > build/coverage/log.txt; tail -n 3 build/coverage/log.txt
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --show-missing > build/coverage/report.txt; tail -n 1 build/coverage/report.txt

# hours of attacks: so many cases, until Ctrl-C
HOSTILE ?= 1000000
hostile: $(STAMP)
	HOSTILE=$(HOSTILE) $(BIN)/pytest -n 0 tests/hostile

# on a machine with a GPU: its own python3 and libraries, no network; WHEELS=folder adds what is missing
gpu:
	$(PYTHON) benchmarks/gpu.py --json build/gpu.json $(if $(WHEELS),--wheels $(WHEELS)) $(GPU)

bench: $(STAMP)
	$(BIN)/python -m benchmarks

docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/mkdocs build --strict

# a wheel with kernels for every Python of PYTHONS that this machine has, LEVEL=x86-64-v2 for older
# processors: the demo from an environment of its own, where it compiles none, but for a child
PYTHONS ?= python3.11 python3.12 python3.13
wheels: $(STAMP)
	rm -rf build/wheels
	$(BIN)/python -m hatchling build -t wheel -d build/wheels
	@for python in $(PYTHONS); do \
	  $$python -c '' 2> /dev/null || { echo "$$python: not on this machine"; continue; }; \
	  echo "== $$python"; \
	  folder=$(CURDIR)/build/wheels/$$(basename $$python); $$python -m venv $$folder && \
	  $$folder/bin/pip install --quiet --disable-pip-version-check -c constraints.txt \
	    "$$(ls $(CURDIR)/build/wheels/*-none-any.whl)[run,mpi,kaminpar,datasets]" hatchling && \
	  $$folder/bin/plancc warm-up --portable $$folder/kernels $(if $(LEVEL),--level $(LEVEL)) && \
	  PLANCC_KERNELS=$$folder/kernels $$folder/bin/python -m hatchling build -t wheel -d $$folder/dist && \
	  $$folder/bin/pip install --quiet --no-deps --force-reinstall $$folder/dist/*.whl && \
	  PATH="$$folder/bin:$$PATH" sh docs/demo.sh && \
	  { [ -n "$(LEVEL)" ] || [ -z "$$(find $$folder/var -name '*.kernel' ! -name '*_product32*')" ]; } && \
	  mv $$folder/dist/*.whl build/wheels || exit 1; \
	done

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist site
