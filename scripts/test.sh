#!/bin/sh
# Builds and runs the tests of a tier (fast, full, node), prints what each binary took and the slowest tests.
# The runner is testbed/testkit/src/bin/run-tests; the tiers are described in docs/contributing.md.
set -eu
cd "$(dirname "$0")/.."
cargo build -q -p testkit --bin run-tests
exec "${CARGO_TARGET_DIR:-target}/debug/run-tests" "${1:-full}"
