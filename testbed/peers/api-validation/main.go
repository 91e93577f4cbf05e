// The API server's own verdict on objects that a client creates, without a server: for each object of
// stdin, one a line in JSON, one line in JSON goes to stdout.
//
//	{"accepted":true}
//	{"accepted":false,"errors":[{"type":"Required value","field":"spec.containers","detail":"..."}]}
//
// An object goes the way of a create request with fieldValidation=Strict under the default feature
// gates: strict decoding, defaults, the strategy's PrepareForCreate and all of its validation. Admission
// plugins, and what they need of a cluster, are left out.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
)

type problem struct {
	Type   string `json:"type"`
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

type verdict struct {
	Accepted bool      `json:"accepted"`
	Errors   []problem `json:"errors,omitempty"`
}

func main() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	if err := serve(in, out); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// serve flushes whenever nothing more is there to read, so that a caller may send in batches of any size.
func serve(in *bufio.Reader, out *bufio.Writer) error {
	answers := json.NewEncoder(out)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			if err := answers.Encode(judge(line)); err != nil {
				return fmt.Errorf("cannot write a verdict: %w", err)
			}
		}
		if err == io.EOF {
			return out.Flush()
		}
		if err != nil {
			return fmt.Errorf("cannot read an object: %w", err)
		}
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return fmt.Errorf("cannot write verdicts: %w", err)
			}
		}
	}
}
