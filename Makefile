# make demo and make test each work alone on a fresh clone; both set up what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: bench-gpu setup demo test test-matrix lint bench screenshots

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml tests/requirements.lock tests/system-packages.sh
	sh tests/system-packages.sh
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -r tests/requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps -e .
	touch $@

demo: setup
	$(BIN)/hsconsole demo

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The first half waits more than it computes, so more of it than there are cores runs at once;
# the second shares one SGLang.
test: lint
	sh tests/system-packages.sh test
	$(BIN)/pytest -n 4 tests/unit tests/link tests/ui
	$(BIN)/pytest --durations=15 tests/engine tests/bed

# More releases and models than `make test` can afford.
test-matrix: lint
	$(BIN)/pytest -m matrix

bench: setup
	$(BIN)/python -m tests.bench

# On a machine with a GPU, torch and a bundle of wheels: docs/performance.md. GPUS=2 for tensor parallel.
bench-gpu:
	python3 -m tests.gpu --tp $(or $(GPUS),1)

screenshots: setup
	$(BIN)/python -m screenshots.take
