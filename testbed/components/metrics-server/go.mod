module wardlet.dev/testbed/metrics-server

go 1.26.6

require sigs.k8s.io/metrics-server v0.9.0
