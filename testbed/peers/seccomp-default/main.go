// Prints containerd's own default seccomp profile for each list of capabilities that it reads: a line of
// names between spaces in, a line of JSON out.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

func main() {
	out := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		held := &specs.LinuxCapabilities{Bounding: strings.Fields(lines.Text())}
		spec := &specs.Spec{Process: &specs.Process{Capabilities: held}}
		if err := out.Encode(seccomp.DefaultProfile(spec)); err != nil {
			fail(err)
		}
	}
	if err := lines.Err(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "error:", err)
	os.Exit(1)
}
