# SPDX-License-Identifier: Apache-2.0
#
# The front door of Glovebox: `make help` says what there is. The build itself is described in meson.build and
# the test tiers in tools/test; nothing is decided here.

MESON ?= meson
B ?= build

# T=name runs the tests whose name contains it, COV=1 measures coverage, KEEP=1 goes on after a failure.
export T COV KEEP CONTINUE

.DEFAULT_GOAL := build

.PHONY: help
help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

# --- build and run ------------------------------------------------------------------------------------------

.PHONY: all build run hello install clean deps cross
all: build ## The same as build

build: ## Build the program: build/glovebox
	@tools/deps build
	@test -e $(B)/build.ninja || $(MESON) setup $(B)
	@ninja -C $(B)

run: ## Install what is missing, build, and serve on http://127.0.0.1:8000 (ARGS='--listen 127.0.0.1:9000')
	@exec env B='$(B)' MESON='$(MESON)' tools/run $(ARGS)

hello: build ## Run a first program in a box
	@tools/deps run
	$(B)/glovebox run examples/hello.py

install: build ## Install, below DESTDIR if given
	@$(MESON) install -C $(B) --no-rebuild

cross: ## Build for arm64: build-arm64/glovebox
	@tools/deps build cross
	@test -e build-arm64/build.ninja || $(MESON) setup --cross-file tools/cross-arm64.ini build-arm64
	@ninja -C build-arm64

clean: ## Remove all build trees
	rm -rf build build-asan build-cov build-fuzz build-analyzer build-arm64 build-mutants

deps: ## Install the Debian packages for building, running, testing and checking
	@tools/deps

# --- test ---------------------------------------------------------------------------------------------------

.PHONY: test test-all ut it e2e test-v2 test-systemd mutants fuzz
test: ## The fast tier: everything that a change must pass
	@tools/deps build run test check
	@tools/test fast

test-all: ## Everything: also sanitizers, slow tests, arm64, mutants, the guests with cgroup v2 and systemd
	@tools/deps build run test check cross guest
	@tools/test all

ut: ## Unit tests only (T=name, COV=1, KEEP=1; also for it and e2e)
	@tools/deps build run test check
	@tools/test ut

it: ## Tests of the program's interfaces only
	@tools/deps build run test check
	@tools/test it

e2e: ## Tests that try to escape from a box only
	@tools/deps build run test check
	@tools/test e2e

test-v2: ## The tests in a guest with cgroup v2
	@tools/deps build run test guest
	@tools/guest/run

test-systemd: ## The unit in a guest whose PID 1 is systemd
	@tools/deps build run test guest
	@tools/guest/run --systemd --cpus 1 --timeout 1800

mutants: ## Break one defence at a time; the tests must notice each
	@tools/deps build run test
	@tools/mutants

fuzz: ## Fuzz every parser (FUZZ_SECONDS each, default 60; T=name for one)
	@tools/deps build check
	@tools/fuzz $(T)

# --- the rest -----------------------------------------------------------------------------------------------

.PHONY: check bench docs
check: build ## Format the C code, then lint everything
	@tools/deps check
	@tools/lint --fix

bench: build ## Measure, beside other sandboxes: build/bench/ (ARGS='--quick --only P1,P3')
	@tools/deps run bench
	@tests/bench/run $(ARGS)

docs: build ## Build HTML and the man page into build/docs, and check links and spelling
	@tools/deps docs check
	@tools/docs
	@tools/lint links spelling
