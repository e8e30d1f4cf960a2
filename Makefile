# Everything from a clean clone: needs make, a C compiler, Rust (cargo, the version in Cargo.toml or newer) and
# Python 3.11 or newer with venv.
# Nothing global is touched.
#   make demo    encrypt real sentences, classify them encrypted, decrypt     make test   the test suites
#   make demo-service  a server and two clients that ask it
#   make wheel   an installable file in build/wheels, for this machine
#   make release-wheel release-sdist release-check   the files of a release, in build/dist (RELEASING.md)
#   make release-run  one encrypted run for strangers to check again, in build/run (docs/audit.md)
#   make gateway-clients  LangChain and LlamaIndex ask a gateway (docs/guides/openai-clients.md)
#   make test-arm  the kernels of 64-bit ARM, under qemu; needs what RELEASING.md names
#   make notices  THIRD-PARTY-NOTICES.txt anew
#   make deny    licences and advisories of what we link; needs cargo-deny and a network
#   make check   of what differs from main: formatting, types, import rules, the nearest unit tests; one
#                sentence encrypted on a toy ring. For between two commits; CI runs lint and test
#   make lint    formatting, types, import rules, clippy
#   make bench   engine figures, as JSON
#   make figures measure, write docs/benchmarks.md
#   make two-party  the same for the two-party mode
#   make site    the documents as a site, in build/site, with rustdoc; needs curl
#   make web     the page that asks a service, into the package; needs node, npm and, for `make wasm`,
#                the target: rustup target add wasm32-unknown-unknown
#   make setup-browser  as root on Debian: node, Chromium, Rust's wasm target (for make web and its test)
#   make setup-opencl  as root on Debian: OpenCL for the processor, and what finds races in its kernels
#   make test-opencl  OpenCL kernels with mistakes, which must be caught, and races; needs `make setup-opencl`
#   make opencl-budgets  hold what these kernels take of cards that are not here within budgets
#   make sanitize  AddressSanitizer, ThreadSanitizer and Miri over the engine (docs/fuzzing.md); needs
#                rustup toolchain install nightly --component miri --component rust-src
#   make fuzz    fuzz every decoder (docs/fuzzing.md): FUZZ_RUNS=10000000 executions of each of
#                FUZZ_TARGETS=keys,request,... (all)
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
CARGO ?= cargo
BUILD_DIR := build

# Processes of the unit tests, each of which takes a core and 1 GB, and of the other tests: 2 GB, but for the
# one at full security, which takes 9. Those start processes of their own, and wait for them.
TEST_WORKERS ?= 2
PYTHON_CODE := .ci bench python tests fuzz training deploy docs/examples examples

# Of `make two-party`: labelled sentences for its accuracy, which is left out where the file is absent.
SENTENCES ?= $(wildcard ../shared/data/sst2/validation.tsv)

# Fuzzing: tools of these versions, in the build folder. libFuzzer comes with both and needs a C++ compiler.
# A sanitizer needs nightly Rust, watches Rust's targets alone, and sees what comes from the allocator.
FUZZ_RUNS ?= 10000000
FUZZ_TARGETS ?=
FUZZ_OPTIONS ?=
FUZZ_SANITIZER ?= none
FUZZ_WATCHED = RUSTUP_TOOLCHAIN=$(NIGHTLY) RUSTFLAGS="--cfg tacita_no_pool"
FUZZ_BUILD = $(if $(filter none,$(FUZZ_SANITIZER)),,$(FUZZ_WATCHED))
CARGO_FUZZ_VERSION := 0.13.1
CARGO_FUZZ := $(BUILD_DIR)/tools/bin/cargo-fuzz
ATHERIS := $(BUILD_DIR)/fuzz/.stamp-atheris

# Sanitizers: `tacita_no_pool` takes buffers from the allocator, which they watch; loads and stores of kernels
# assert their bounds.
NIGHTLY ?= nightly
SANITIZE := CARGO_TARGET_DIR=$(BUILD_DIR)/sanitize CARGO_PROFILE_RELEASE_DEBUG=line-tables-only \
	$(CARGO) +$(NIGHTLY)
SANITIZE_TARGET := x86_64-unknown-linux-gnu
SANITIZE_FLAGS := -C debug-assertions --cfg tacita_no_pool
MIRI_TESTS := aligned:: ahead:: pool:: blocks_come_from a_dropped_stream streams_repeat

PTXAS := $(BUILD_DIR)/opencl/nvidia/cu13/bin/ptxas

# The clients for browsers. Debian's Rust builds it too, from its sources of the standard library:
# make wasm WASM_CARGO=/usr/bin/cargo WASM_OPTIONS="-Z build-std=std,panic_abort" with RUSTC=/usr/bin/rustc,
# RUSTC_BOOTSTRAP=1 and CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=/usr/lib/llvm-19/bin/wasm-ld set.
WASM_CARGO ?= $(CARGO)
WASM_OPTIONS ?=
WASM_TARGET := wasm32-unknown-unknown
WASM_FLAGS := --cfg getrandom_backend="custom" -C target-feature=+simd128,+bulk-memory \
	-C link-arg=-zstack-size=8388608
WASM := $(BUILD_DIR)/wasm/tacita.wasm
WEB := python/tacita/data/web
# Draws the graphs of the site. Without it `mkdocs build` shows their text.
MERMAID_VERSION := 12.3.0
MERMAID_SHA256 := be0684e8d20bfc874df12c0f04927a5c482f57f2200eec54cca52a4583fd4040
MERMAID := $(BUILD_DIR)/mermaid/mermaid.min.js
WEB_DEPS := web/node_modules/.stamp

RUST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
# What building and `tacita demo` need, what the service needs beside it, and what tests and linters need.
BUILD_DEPS := $(VENV)/.stamp-build
SERVICE_DEPS := $(VENV)/.stamp-service
DEPS := $(VENV)/.stamp-dev
REQUIREMENTS := $(wildcard requirements/*.txt)
NATIVE := $(VENV)/.stamp-native
# The same for `setup` and `wheel`, which then link once. Empty for a profiler, which wants symbols, and
# with CARGO_PROFILE_RELEASE_DEBUG=line-tables-only also lines.
STRIP ?= --strip
# The files of a release, and its tools.
DIST := $(BUILD_DIR)/dist
RELEASE := $(BUILD_DIR)/release
RELEASE_BIN := $(RELEASE)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
RELEASE_DEPS := $(RELEASE)/.stamp-release
RELEASE_TARGET ?= $(shell uname -m)-unknown-linux-gnu
RELEASE_TAG = $(if $(findstring linux-gnu,$(RELEASE_TARGET)),--zig --compatibility manylinux_2_28)\
	$(if $(findstring linux-musl,$(RELEASE_TARGET)),--zig --compatibility musllinux_1_2)
# Other people's clients of the gateway.
CLIENTS := $(BUILD_DIR)/clients
CLIENT_DEPS := $(CLIENTS)/.stamp-clients
# The run that a release publishes: README's first text, the default model and plan.
RUN := run-of-the-readme
RUN_TEXT := a film of quiet beauty
RUN_OPTIONS ?=
RUNS := $(BUILD_DIR)/run
WHEELS := $(BUILD_DIR)/wheels
WHEEL := $(WHEELS)/.stamp-wheel
PACKAGE := $(shell find python/tacita -type f -not -name '*.py[co]' -not -name '*.so' 2>/dev/null)
RUST_SOURCES := $(shell find crates -name '*.rs' -o -name 'Cargo.toml' 2>/dev/null) \
	$(wildcard Cargo.toml Cargo.lock)

.DELETE_ON_ERROR:
.PHONY: setup tools demo demo-service wheel test test-rust test-unit test-integration check lint lint-rust
.PHONY: sanitize sanitize-address sanitize-thread sanitize-miri lattigo
.PHONY: test-arm release-wheel release-sdist release-readme release-check release-run notices deny
.PHONY: gateway-clients test-opencl opencl-budgets
.PHONY: site lint-python bench figures two-party fuzz fmt clean help wasm web setup-browser setup-opencl

help:
	@sed -n '/^#/!q;p' Makefile

# What is downloaded comes while Rust is compiled.
setup:
	@$(MAKE) --no-print-directory --jobs 2 $(DEPS) $(NATIVE)

tools:
	@test -n "$(PYTHON)" || { \
	  echo "Python 3.11 or newer is needed: apt-get install python3 python3-venv"; exit 1; }
	@command -v cc >/dev/null || { echo "a C compiler is needed: apt-get install gcc"; exit 1; }
	@command -v $(CARGO) >/dev/null || { echo "Rust $(RUST) or newer is needed: https://rustup.rs"; exit 1; }
	@version=$$($(CARGO) --version | cut -d ' ' -f 2); printf '%s\n' $(RUST) "$$version" | sort -VC || { \
	  echo "Rust $(RUST) or newer is needed, this is $$version: rustup update, or https://rustup.rs"; exit 1; }

$(BIN)/python: | tools
	$(PYTHON) -m venv $(VENV) || { echo "hint: apt-get install python3-venv"; exit 1; }

# Of a hundred megabytes of modules few are ever imported: each is compiled when it is.
$(BUILD_DEPS) $(SERVICE_DEPS) $(DEPS): $(VENV)/.stamp-%: requirements/%.txt $(REQUIREMENTS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -r $<
	touch $@

$(SERVICE_DEPS) $(DEPS): | $(BUILD_DEPS) # two processes of pip would write the same files

$(NATIVE): $(BUILD_DEPS) $(RUST_SOURCES) pyproject.toml | tools
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --release --locked $(STRIP)
	touch $@

demo: $(NATIVE)
	$(BIN)/tacita demo

demo-service: $(NATIVE) $(SERVICE_DEPS)
	$(BIN)/tacita demo-service

# One file, of this working tree: what the last build left is removed.
$(WHEEL): $(NATIVE) $(PACKAGE) README.md LICENSE THIRD-PARTY-NOTICES.txt
	rm -rf $(WHEELS)
	$(BIN)/maturin build --release --locked $(STRIP) --compression-level 9 \
	  --interpreter $(BIN)/python --out $(WHEELS)
	touch $@

wheel: $(WHEEL)

# A wheel of a release for one target. For Linux zig links it against the C library that its tag names,
# whatever this machine has.
$(RELEASE_DEPS): requirements/release.txt | tools
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE_BIN)/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

release-wheel: $(RELEASE_DEPS)
	rustup target add $(RELEASE_TARGET)
	PATH="$(CURDIR)/$(RELEASE_BIN):$$PATH" $(RELEASE_BIN)/maturin build --profile dist --locked --strip \
	  --target $(RELEASE_TARGET) $(RELEASE_TAG) --interpreter python3.11 --out $(DIST)
	$(RELEASE_BIN)/python .ci/repack.py $(DIST)/*.whl

release-sdist: $(RELEASE_DEPS)
	$(RELEASE_BIN)/maturin sdist --out $(DIST)

# Changes README.md, so only in a checkout of which a release is built.
release-readme: $(RELEASE_DEPS)
	$(RELEASE_BIN)/python .ci/readme_links.py

release-check: $(RELEASE_DEPS)
	$(RELEASE_BIN)/twine check --strict $(DIST)/*
	$(RELEASE_BIN)/check-wheel-contents $(DIST)/*.whl
	@large=$$(find $(DIST) -name '*.whl' -size +9999999c); test -z "$$large" || { echo "10 MB: $$large"; exit 1; }
	$(RELEASE_BIN)/cffconvert --validate
	$(PYTHON) .ci/notices.py --check

# With a secret key to throw away, made and checked in one go: 6 GB, a minute or two, 17 MB.
release-run: setup
	rm -rf $(RUNS)
	$(BIN)/tacita recheck $(RUNS)/$(RUN) --record "$(RUN_TEXT)" $(RUN_OPTIONS)
	tar -czf $(RUNS)/$(RUN).tar.gz -C $(RUNS) $(RUN)
	rm -rf $(RUNS)/$(RUN)
	test $$(wc -c < $(RUNS)/$(RUN).tar.gz) -lt 50000000
	cd $(RUNS) && sha256sum $(RUN).tar.gz > $(RUN).tar.gz.sha256

test-arm: ARM := aarch64-unknown-linux-gnu
test-arm: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER := aarch64-linux-gnu-gcc
test-arm: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER := qemu-aarch64-static -L /usr/aarch64-linux-gnu
test-arm:
	rustup target add $(ARM)
	$(CARGO) test --profile quick --locked --target $(ARM) -p tacita-ring --lib

notices:
	$(PYTHON) .ci/notices.py

deny:
	@command -v cargo-deny >/dev/null || { echo "run: cargo install cargo-deny --locked"; exit 1; }
	$(CARGO) deny check

# As root, on Debian: what the page is built with, and the browser that its test drives.
setup-browser:
	apt-get install --yes --no-install-recommends chromium nodejs npm
	command -v rustup >/dev/null && rustup target add $(WASM_TARGET)

# As root, on Debian: PoCL runs OpenCL's kernels on the processor, Oclgrind and clang examine them.
setup-opencl:
	apt-get install --yes --no-install-recommends \
	  pocl-opencl-icd ocl-icd-libopencl1 oclgrind clang-16 libclc-16 libclc-16-dev

# What the kernels take of cards that are not here: registers, spills, doubles. NVIDIA's ptxas is a tool of this
# check alone; without it, or without clang, its part is left out, in words.
opencl-budgets: $(PTXAS)
	$(PYTHON) .ci/opencl_budgets.py

$(PTXAS): requirements/opencl.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade --no-deps \
	  --target $(BUILD_DIR)/opencl -r requirements/opencl.txt \
	  || echo "NVIDIA's ptxas cannot be downloaded: its budgets are left out"

wasm: $(WASM)

$(WASM): $(RUST_SOURCES)
	RUSTFLAGS='$(WASM_FLAGS)' $(WASM_CARGO) build --locked --profile wasm -p tacita-wasm \
	  --target $(WASM_TARGET) $(WASM_OPTIONS)
	mkdir -p $(dir $@)
	cp "$${CARGO_TARGET_DIR:-target}/$(WASM_TARGET)/wasm/tacita_wasm.wasm" $@

$(WEB_DEPS): web/package.json web/package-lock.json
	@command -v npm >/dev/null || { echo "node and npm are needed: apt-get install nodejs npm"; exit 1; }
	npm --prefix web ci --ignore-scripts --no-audit --no-fund
	touch $@

web: $(WASM) $(WEB_DEPS)
	npm --prefix web run check
	rm -rf $(WEB)
	node web/build.mjs $(WEB) $(WASM)

$(MERMAID):
	mkdir -p $(dir $@)
	curl -fsSL https://registry.npmjs.org/mermaid/-/mermaid-$(MERMAID_VERSION).tgz -o $(dir $@)mermaid.tgz
	echo "$(MERMAID_SHA256)  $(dir $@)mermaid.tgz" | sha256sum --check --quiet
	tar -xzf $(dir $@)mermaid.tgz -C $(dir $@) --strip-components 2 package/dist/mermaid.min.js
	touch $@

site: setup $(MERMAID)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --exclude tacita-py --exclude tacita-fuzz --no-deps --locked
	cp -r $${CARGO_TARGET_DIR:-target}/doc $(BUILD_DIR)/site/rust

# Every part runs, also after one that failed, and the last line names those that did.
test:
	@failed=; for part in test-rust test-unit test-integration; do \
	  $(MAKE) --no-print-directory $$part || { failed="$$failed $$part"; echo "FAILED: $$part"; }; \
	done; \
	test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

# Mutants of the kernels, and races by Oclgrind, beside what `make test-rust` compares.
test-opencl: | tools
	$(CARGO) test --profile quick -p tacita-opencl -- --include-ignored --skip small_kernels

# Neither examples, which `make lint` compiles, nor comments, which hold no programs.
test-rust: | tools
	$(CARGO) test --profile quick --workspace --exclude tacita-py --tests --quiet

test-unit: setup
	$(BIN)/python -m pytest tests/unit -n $(TEST_WORKERS) --dist loadfile

test-integration: setup wheel lattigo
	$(BIN)/python -m pytest tests --ignore tests/unit -n $(TEST_WORKERS) --dist worksteal

# The program that tests/known_answers asks, where Go is installed.
lattigo:
	@if ! command -v go >/dev/null; then echo "Go is not installed: tests against Lattigo are left out"; \
	elif ! (cd bench/lattigo && go mod download); then \
	  echo "Lattigo cannot be downloaded: tests against it are left out"; \
	else cd bench/lattigo && go build -o ../../$(BUILD_DIR)/lattigo/lattigo .; fi

$(CLIENT_DEPS): requirements/clients.txt | tools
	$(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

# The tests of the guide that `make test` leaves out where this environment is not there.
gateway-clients: setup $(CLIENT_DEPS)
	$(BIN)/python -m pytest tests/integration/test_openai_guide.py -k other_libraries

check: setup
	PYTHONPATH=python $(BIN)/python .ci/check.py

lint: lint-rust lint-python

# With what maturin tells pyo3, where it built already: another environment would have both build it anew.
lint-rust:
	$(CARGO) fmt --all --check
	config=$$(find "$${CARGO_TARGET_DIR:-$(CURDIR)/target}/maturin" -name 'pyo3-config-*' 2>/dev/null | head -n 1); \
	$${config:+env PYO3_CONFIG_FILE=$$config} \
	  $(CARGO) clippy --release --workspace --all-targets --quiet -- -D warnings

lint-python: setup
	$(BIN)/ruff check $(PYTHON_CODE)
	$(BIN)/ruff format --check $(PYTHON_CODE)
	$(BIN)/mypy
	MYPYPATH=python $(BIN)/mypy --strict --scripts-are-modules tests/typing examples
	MYPYPATH=python PYTHONPATH=python $(BIN)/stubtest tacita._native
	PYTHONPATH=python $(BIN)/lint-imports
	$(BIN)/python .ci/words.py

fmt: $(DEPS)
	$(CARGO) fmt --all
	$(BIN)/ruff check --fix $(PYTHON_CODE)
	$(BIN)/ruff format $(PYTHON_CODE)

bench: setup
	mkdir -p $(BUILD_DIR)
	$(BIN)/python -m bench engine --json $(BUILD_DIR)/engine.json --prices $(BUILD_DIR)/prices.json

figures: bench
	$(BIN)/tacita demo --json $(BUILD_DIR)/demo.json
	$(BIN)/python -m bench figures --engine $(BUILD_DIR)/engine.json --demo $(BUILD_DIR)/demo.json

two-party: setup
	mkdir -p $(BUILD_DIR)
	$(BIN)/python -m bench two-party --json $(BUILD_DIR)/two-party.json $(if $(SENTENCES),--data $(SENTENCES))
	$(BIN)/python -m bench two-party-figures --bench $(BUILD_DIR)/two-party.json

$(CARGO_FUZZ):
	$(CARGO) install cargo-fuzz --root $(BUILD_DIR)/tools --locked --version $(CARGO_FUZZ_VERSION)

$(ATHERIS): requirements/fuzz.txt $(DEPS)
	mkdir -p $(BUILD_DIR)/fuzz/atheris
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade --no-deps \
	  --target $(BUILD_DIR)/fuzz/atheris -r requirements/fuzz.txt
	touch $@

fuzz: setup $(CARGO_FUZZ) $(ATHERIS)
	cd fuzz && $(FUZZ_BUILD) ../$(CARGO_FUZZ) build --fuzz-dir . --sanitizer $(FUZZ_SANITIZER) \
	  --target-dir ../$(BUILD_DIR)/fuzz/target
	$(CARGO) test --release --quiet -p tacita-mpc no_damage_of_any_message -- --ignored
	$(BIN)/python fuzz/campaign.py --runs $(FUZZ_RUNS) --targets "$(FUZZ_TARGETS)" \
	  --sanitizer $(FUZZ_SANITIZER) $(FUZZ_OPTIONS)

sanitize: sanitize-address sanitize-thread sanitize-miri

sanitize-address:
	RUSTFLAGS="-Z sanitizer=address $(SANITIZE_FLAGS)" $(SANITIZE) test --release --locked \
	  --target $(SANITIZE_TARGET) -p tacita-ring -p tacita-rlwe -p tacita-wire --lib --tests

# One toy request with several threads: products, a bootstrap, a refresh. The standard library is built along:
# without it its locks are not seen.
sanitize-thread:
	RUSTFLAGS="-Z sanitizer=thread $(SANITIZE_FLAGS)" RAYON_NUM_THREADS=4 $(SANITIZE) test --release --locked \
	  --target $(SANITIZE_TARGET) -Z build-std -p tacita-coefficients --tests

# Miri knows no vector instructions: the scalar path, and what it can run of modules with unsafe code in a
# minute or two.
sanitize-miri:
	TACITA_SIMD=scalar MIRIFLAGS=-Zmiri-disable-isolation $(SANITIZE) miri test --locked -p tacita-ring --lib \
	  -- $(MIRI_TESTS)

clean:
	rm -rf $(VENV) target $(BUILD_DIR) $(WEB) web/node_modules
