#!/bin/sh
# Drives a real kubelet with containerd and runc:  kubelet.sh usable|start|running|stop|gone|leave MANIFEST
# WARDLET_BENCH_KUBECTL is the command that reaches the cluster, such as "kubectl --kubeconfig FILE"; its one
# node must have the image localhost/wardlet-bench:1 already.
set -eu
kubectl=${WARDLET_BENCH_KUBECTL:-}
if [ -z "$kubectl" ]; then
    [ "$1" != leave ] || exit 0
    echo "WARDLET_BENCH_KUBECTL names no kubectl: bring up a node and set it" >&2
    exit 1
fi

case "$1" in
    usable) $kubectl wait --for=condition=Ready node --all --timeout=10s >/dev/null ;;
    start) $kubectl apply -f "$2" >/dev/null ;;
    # A watch, so that nothing is lost to polling.
    running) $kubectl wait --for=condition=Ready -f "$2" --timeout=60s >/dev/null ;;
    stop) $kubectl delete -f "$2" --wait=true >/dev/null ;;
    gone) ! $kubectl get -f "$2" >/dev/null 2>&1 ;;
    leave) $kubectl delete -f "$2" --ignore-not-found --wait=true >/dev/null ;;
    *) echo "usage: $0 usable|start|running|stop|gone|leave MANIFEST" >&2; exit 2 ;;
esac
