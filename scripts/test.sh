#!/bin/sh
# Runs the tests of a tier, prints what each suite took and the ten slowest tests.
#   scripts/test.sh fast    no root, no components
#   scripts/test.sh full    everything that `make test` promises
#   scripts/test.sh node    whole nodes, for `make test-conformance`
# A test that needs root is in a file named root_*, one that needs a component or time in slow_*, one that needs a
# whole node to itself in node_*.
set -eu
tier=${1:-full}
cd "$(dirname "$0")/.."

if [ "$tier" != fast ] && [ "$(id -u)" -ne 0 ]; then
    echo "error: the full tier tries the real kernel and needs root" >&2
    echo >&2
    echo "hint: sudo make test, or make test-fast for what needs no root" >&2
    exit 2
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
began=$(date +%s)

echo "building the tests" >&2
cargo build --workspace --bins --examples --quiet
cargo test --workspace --no-run --message-format=json 2>"$work/build.log" >"$work/build.json" || {
    cargo test --workspace --no-run
    exit 1
}
sed -n 's/.*"profile":{[^}]*"test":true.*"executable":"\([^"]*\)".*/\1/p' "$work/build.json" | sort -u >"$work/suites"
[ -s "$work/suites" ] || { echo "error: cargo built no tests" >&2; exit 1; }

# The programs are built: no suite needs to do that again.
export WARDLET_PROGRAMS="${CARGO_TARGET_DIR:-$PWD/target}/debug"

failed=0 passed=0 broken=0
: >"$work/times"
while read -r suite; do
    name=$(basename "$suite" | sed 's/-[0-9a-f]\{16\}$//')
    case "$tier:$name" in
        fast:root_* | fast:slow_* | fast:node_* | full:node_*) continue ;;
        node:node_*) ;;
        node:*) continue ;;
    esac
    start=$(date +%s)
    # Cargo's own variables, as `cargo test` would set them: tests find the manifest and cargo by them.
    manifest=$(grep -F "\"executable\":\"$suite\"" "$work/build.json" |
        sed -n 's/.*"manifest_path":"\([^"]*\)\/Cargo.toml".*/\1/p' | head -n 1)
    # The flag only makes the test harness print each test's time.
    mark=FAILED
    for attempt in 1 2; do
        if (cd "$manifest" && CARGO_MANIFEST_DIR=$manifest RUSTC_BOOTSTRAP=1 \
            "$suite" -Zunstable-options --report-time) >"$work/out" 2>&1; then
            mark=ok
            # What holds only the second time is shown, and named again at the end: it is to be mended.
            [ "$attempt" -eq 1 ] || { mark=flaky; echo "$(basename "$manifest")/$name" >>"$work/flaky"; }
            break
        fi
        cat "$work/out"
    done
    [ "$mark" != FAILED ] || broken=$((broken + 1))
    count=$(sed -n 's/^test result: [^.]*\. \([0-9]*\) passed.*/\1/p' "$work/out")
    passed=$((passed + ${count:-0}))
    bad=$(sed -n 's/^test result: [^.]*\. [0-9]* passed; \([0-9]*\) failed.*/\1/p' "$work/out")
    failed=$((failed + ${bad:-0}))
    # A program without tests of its own is not worth a line.
    [ "$mark" = ok ] && [ "${count:-0}" -eq 0 ] && continue
    printf '%-40s %-6s %4s tests %4s s\n' "$(basename "$manifest")/$name" "$mark" "${count:-0}" $(($(date +%s) - start))
    sed -n "s|^test \(.*\) \.\.\. .* <\([0-9.]*\)s>\$|\2 $(basename "$manifest")/\1|p" "$work/out" >>"$work/times"
done <"$work/suites"

echo
echo "the ten slowest tests, in seconds:"
sort -rn "$work/times" | head -n 10
echo
if [ -s "$work/flaky" ]; then
    echo "failed the first time and held the second:"
    cat "$work/flaky"
    echo
fi
took=$(($(date +%s) - began))
echo "tier $tier took $took s"
verdict=ok
[ "$broken" -eq 0 ] || verdict=FAILED
# The words of cargo's own test harness, for whoever counts by them.
echo "test result: $verdict. $passed passed; $failed failed; 0 ignored; 0 measured; 0 filtered out; finished in $took.00s"
[ "$broken" -eq 0 ]
