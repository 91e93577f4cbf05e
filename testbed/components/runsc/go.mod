module wardlet.dev/testbed/runsc

go 1.26.3

require gvisor.dev/gvisor v0.0.0-20260527191743-a81fd9dd382e
