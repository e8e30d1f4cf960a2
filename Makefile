# Everything from a clean clone: needs make, a C compiler, Rust (cargo) and Python 3.11 or newer with venv. Nothing global is touched.
#   make demo    encrypt real sentences, classify them encrypted, decrypt     make test   the test suites
#   make lint    formatting, types, import rules, clippy                      make bench  engine figures, as JSON
#   make figures measure, write docs/benchmarks.md                           make two-party  the same for the two-party mode
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
CARGO ?= cargo
BUILD_DIR := build

DEPS := $(VENV)/.stamp-deps
NATIVE := $(VENV)/.stamp-native
RUST_SOURCES := $(shell find crates -name '*.rs' -o -name 'Cargo.toml' 2>/dev/null) $(wildcard Cargo.toml Cargo.lock)

.DELETE_ON_ERROR:
.PHONY: setup demo test test-rust test-python lint lint-rust lint-python bench figures two-party fmt clean help

help:
	@sed -n '1,4p' Makefile

setup: $(NATIVE)

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: apt-get install python3 python3-venv"; exit 1; }
	@command -v $(CARGO) >/dev/null || { echo "Rust is needed: https://rustup.rs"; exit 1; }
	@command -v cc >/dev/null || { echo "a C compiler is needed: apt-get install gcc"; exit 1; }
	$(PYTHON) -m venv $(VENV) || { echo "hint: apt-get install python3-venv"; exit 1; }

$(DEPS): requirements/runtime.txt requirements/dev.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/dev.txt
	touch $@

$(NATIVE): $(DEPS) $(RUST_SOURCES) pyproject.toml
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --release --locked
	touch $@

demo: setup
	$(BIN)/tacita demo

test: test-rust test-python

test-rust:
	$(CARGO) test --release --workspace --exclude tacita-py --quiet

test-python: setup
	$(BIN)/python -m pytest

lint: lint-rust lint-python

lint-rust:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets --quiet -- -D warnings

lint-python: $(DEPS)
	$(BIN)/ruff check python tests evaluation
	$(BIN)/mypy
	PYTHONPATH=python $(BIN)/lint-imports

fmt: $(DEPS)
	$(CARGO) fmt --all
	$(BIN)/ruff check --fix python tests

bench: setup
	mkdir -p $(BUILD_DIR)
	$(BIN)/tacita bench engine --json $(BUILD_DIR)/engine.json --prices $(BUILD_DIR)/prices.json

figures: bench
	$(BIN)/tacita demo --json $(BUILD_DIR)/demo.json
	$(BIN)/python evaluation/figures.py --engine $(BUILD_DIR)/engine.json --demo $(BUILD_DIR)/demo.json

two-party: setup
	mkdir -p $(BUILD_DIR)
	$(BIN)/tacita bench two-party --json $(BUILD_DIR)/two-party.json
	$(BIN)/python evaluation/two_party_figures.py --bench $(BUILD_DIR)/two-party.json

clean:
	rm -rf $(VENV) target $(BUILD_DIR)
