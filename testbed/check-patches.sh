#!/bin/sh
# What `wardlet check` hands out, on a real node: a workload that it calls ready is patched with the patch that it
# wrote, and its pod must then run in a user namespace of its own.
#   testbed/check-patches.sh WARDLET TESTBED
set -eu
wardlet=$1 testbed=$2
name=check-patches
work=$(mktemp -d)
trap '"$testbed" down "$name" >/dev/null 2>&1 || :; rm -rf "$work"' EXIT INT TERM
kubectl() { "$testbed" exec "$name" -- kubectl "$@"; }

config=$("$testbed" up --name "$name")
cat >"$work/shop.yaml" <<'YAML'
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: c
        image: registry.k8s.io/e2e-test-images/busybox:1.37.0-2
        imagePullPolicy: Never
        command: [sh, -c, "cat /proc/self/uid_map; sleep 1000"]
        volumeMounts: [{name: d, mountPath: /data}]
      volumes: [{name: d, emptyDir: {}}]
YAML

# The map that the newest pod of the workload prints, once it runs.
map_of_pod() {
    for _ in $(seq 120); do
        pod=$(kubectl get pods -l app=shop --field-selector=status.phase=Running \
            --sort-by=.metadata.creationTimestamp -o name | tail -n 1)
        [ -n "$pod" ] && kubectl logs "$pod" 2>/dev/null | grep . && return
        sleep 0.5
    done
    kubectl describe pods -l app=shop >&2
    return 1
}

inside() { "$testbed" exec "$name" -- "$@"; }

kubectl create -f "$work/shop.yaml"
kubectl rollout status deployment/shop --timeout=90s
echo "before: $(map_of_pod)"

inside "$wardlet" check --cluster --kubeconfig "$config" -n default --write-patches "$work/patches"
patch=$(find "$work/patches" -type f -name '*shop*' | head -n 1)
echo "patch:"
cat "$patch"
kubectl patch deployment shop --patch-file "$patch"
kubectl rollout status deployment/shop --timeout=90s
map=$(map_of_pod)
echo "after:  $map"

case $(echo "$map" | tr -s ' ') in
    *" 0 0 4294967295"*) echo "error: the patched pod has the host's users" >&2; exit 1 ;;
    *" 65536") echo "the patched pod runs in a user namespace of its own" ;;
    *) echo "error: no map of a pod: $map" >&2; exit 1 ;;
esac
