#!/bin/sh
# Runs every conformance test, also after one has failed, and writes commit, date and counts into docs/conformance.md.
# Exit code 1 if one failed or could not be run.
#   scripts/conformance.sh TARGET    the directory of what was built, such as target/debug
set -eu
cd "$(dirname "$0")/.."
programs=$1
results=$(mktemp)
trap 'rm -f "$results"' EXIT INT TERM
export WARDLET_CONFORMANCE="$results" WARDLET_PROGRAMS="$PWD/$programs"
failed=

record() { printf '{"name":"%s","counts":"%s"}\n' "$1" "$2" >>"$results"; }

# try NAME COMMAND...: what records no counts of this name is recorded by its outcome.
try() {
    name=$1
    shift
    before=$(wc -l <"$results")
    if "$@"; then
        outcome=passed
    else
        # Exit status 2: something that it needs cannot be had here.
        case $? in 2) outcome="not run" ;; *) outcome=failed ;; esac
        failed="$failed $name,"
    fi
    tail -n "+$((before + 1))" "$results" | grep -q "\"name\":\"$name\"" || record "$name" "$outcome"
}

try check-patches testbed/check-patches.sh "$programs/wardlet" "$programs/testbed"
for runtime in containerd wardlet; do
    option=
    [ $runtime = containerd ] || option="--containerd wardlet"
    for tests in show-userns e2e-userns critest; do
        # shellcheck disable=SC2086 # the option is two words, or none
        try "$tests $runtime" "$programs/testbed" "$tests" $option
    done
    # shellcheck disable=SC2086
    try "e2e-userns $runtime agent" "$programs/testbed" e2e-userns --agent wardlet $option
done
# The kubelet first: what passes on it is what the others are measured by, and only in this run.
kept=target/conformance
rm -rf "$kept"
for node in "containerd" "containerd agent" "wardlet agent"; do
    case $node in
    containerd) option= ;;
    "containerd agent") option="--agent wardlet" ;;
    *) option="--agent wardlet --containerd wardlet" ;;
    esac
    for suite in node conformance serial host; do
        # shellcheck disable=SC2086 # options, or none
        try "e2e $suite $node" "$programs/testbed" e2e $suite --keep "$kept" $option
    done
done
try oracle cargo test -q -p manifest --test slow oracle::
try pod-security cargo test -q -p manifest --test slow pod_security::
rm -f target/test-results/results.json
try node scripts/test.sh node
count() { grep -o "\"outcome\":\"$1\"" target/test-results/results.json | wc -l; }
[ ! -e target/test-results/results.json ] || record node "$(count passed) passed, $(count failed) failed"
"$programs/testbed" conformance-report "$results" docs/conformance.md
[ -z "$failed" ] || { echo "error: failed or not run:${failed%,}" >&2; exit 1; }
