# What each target does: `make help`. Tiers of tests and their times: docs/contributing.md.
SHELL := /bin/sh
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := oci_spec subid getsubids proc_map kubelet_record label contexts manifest layer image_manifest image_config \
	spdy websocket job_part seccomp_profile users order mountinfo challenge cni docker_archive

# Programs of the peers that we are measured against; outside the checkout, as all components.
CACHE := $(or $(WARDLET_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/wardlet)

# The wrapper is linked statically: it runs in whatever mount namespace its caller has, and starts faster.
TRIPLE = $(shell rustc -vV | sed -n 's/^host: //p')
STATIC = target.$(TRIPLE).rustflags=["-C","target-feature=+crt-static"]
WRAPPER = cargo build --release -q --target $(TRIPLE) --config '$(STATIC)' -p wardlet-oci && \
	install target/$(TRIPLE)/release/wardlet-oci target/release/wardlet-oci

.PHONY: help run build setup components fmt lint test-fast attacks test test-conformance soak bench bench-agent bench-many fuzz clean

help: ## Shows this.
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 18

run: ## Runs a pod in its own block of host IDs on the built-in runtime, and proves it (root).
	@scripts/setup.sh run
	@echo "compiling wardlet: about eight minutes on a new machine with two cores, then seconds" >&2
	cargo build -p wardlet -p monitor -p wardlet-container
	scripts/run.sh $(or $(CARGO_TARGET_DIR),target)/debug

build: ## Builds the release binaries.
	cargo build --release -p wardlet -p monitor -p wardlet-container
	$(WRAPPER)

setup: ## Installs the Debian packages that the tests need, if any is missing.
	@scripts/setup.sh

fmt: ## Formats the code.
	cargo fmt --all

lint: ## Formatting and clippy, without a warning.
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

test-fast: ## Unit tests, 10 000-case properties, the command line; no root, no components.
	scripts/test.sh fast

attacks: setup components ## Tries every known attack on this build (root): docs/threat-model.md.
	cargo build --workspace --bins --examples
	WARDLET_PROGRAMS=$(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/debug cargo test -q --workspace --test root -- attacks::

components: setup ## Installs what the full tests need: an API server, containerd, runc, VM kernels (root).
	cargo run -p testbed -- install test
	cargo run -p vm --bin vm -- install

test: setup lint components ## Everything that CI runs (root).
	scripts/test.sh full

test-conformance: setup ## Upstream's own tests on a real node and beside our validation (root); writes docs/conformance.md.
	cargo run -p testbed -- install node conformance
	cargo build -p wardlet -p monitor -p wardlet-container -p wardlet-oci -p testbed
	scripts/conformance.sh target/debug

bench: setup ## Measures us against the peers; table, JSON and plot in benches/results (root, Go).
	testbed/peers/build.sh $(CACHE)/peers
	cargo build --release -p wardlet -p monitor -p wardlet-container -p testbed
	$(WRAPPER)
	cargo run --release -q -p bench -- run --peers $(CACHE)/peers \
		--json benches/results/bench.json --plot benches/results/bench.svg

bench-agent: setup ## Measures wardlet agent beside a real kubelet: those rows of make bench alone, 15 minutes (root).
	cargo build --release -p wardlet -p monitor -p wardlet-container -p testbed -p bench
	target/release/bench run agent --peers . --json benches/results/agent.json

bench-many: setup ## Measures a node of wardlet agent with up to 250 pods: the last rows of make bench alone; JSON and plot (root).
	cargo build --release -p wardlet -p monitor -p wardlet-container -p testbed -p bench
	target/release/testbed install test
	target/release/bench run many --peers . --json benches/results/many.json --plot benches/results/many.svg

# The sanitiser takes two constants of SQLite that the linker has merged for one that was defined twice.
fuzz: ## Fuzzes every parser of foreign input for FUZZ_SECONDS each (nightly toolchain, cargo-fuzz).
	@command -v cargo-fuzz >/dev/null || cargo install cargo-fuzz --locked --version 0.13.2
	@for t in $(FUZZ_TARGETS); do \
		mkdir -p fuzz/corpus/$$t && \
		ASAN_OPTIONS=detect_odr_violation=0 cargo +nightly fuzz run $$t fuzz/corpus/$$t fuzz/seeds/$$t -- -max_total_time=$(FUZZ_SECONDS) || exit 1; \
	done

soak: components ## Long crash histories, full nodes, a million model cases, fuzzing: hours (root).
	PROPTEST_CASES=1000000 WARDLET_ROUNDS=300 scripts/test.sh full
	cargo run -q -p testbed -- install node
	cargo build -q --workspace --bins
	WARDLET_ROUNDS=30 cargo test -q -p wardlet --test node verify_beside:: -- --nocapture
	$(MAKE) fuzz FUZZ_SECONDS=1800

clean: ## Removes what was built.
	cargo clean
