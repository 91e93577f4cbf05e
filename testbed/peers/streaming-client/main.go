// Kubernetes' own clients for exec, attach and port-forward, at a URL that a runtime has given out. Prints one JSON
// object.
//
//	streaming-client command TRANSPORT [FLAGS] URL    exec or attach: spdy, or a WebSocket protocol such as v5.channel.k8s.io
//	streaming-client forward TRANSPORT [FLAGS] URL    port-forward: spdy or tunnel
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
)

type asked struct {
	transport   string
	url         *url.URL
	stdin       int64
	keepOpen    bool
	stdout      bool
	stderr      bool
	tty         bool
	sizes       string
	port        int
	connections int
	bytes       int64
}

func main() {
	result, err := run(os.Args[1:])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) (any, error) {
	if len(args) < 3 {
		return nil, fmt.Errorf("usage: streaming-client command|forward TRANSPORT [FLAGS] URL")
	}
	asked, err := read(args[1], args[2:])
	if err != nil {
		return nil, err
	}
	switch args[0] {
	case "command":
		return command(asked)
	case "forward":
		return forward(asked)
	}
	return nil, fmt.Errorf("no such client: %q", args[0])
}

func read(transport string, args []string) (asked, error) {
	asked := asked{transport: transport}
	flags := flag.NewFlagSet(transport, flag.ContinueOnError)
	flags.Int64Var(&asked.stdin, "stdin", -1, "send so many bytes, then close the input")
	flags.BoolVar(&asked.keepOpen, "keep-open", false, "do not close the input")
	flags.BoolVar(&asked.stdout, "stdout", true, "ask for the output")
	flags.BoolVar(&asked.stderr, "stderr", true, "ask for the error output")
	flags.BoolVar(&asked.tty, "tty", false, "have a terminal")
	flags.StringVar(&asked.sizes, "sizes", "", "the terminal's sizes in turn, such as 80x24,100x30")
	flags.IntVar(&asked.port, "port", 80, "the port inside")
	flags.IntVar(&asked.connections, "connections", 1, "as many connections at once")
	flags.Int64Var(&asked.bytes, "bytes", 1<<20, "so many bytes there and back on each connection")
	if err := flags.Parse(args); err != nil {
		return asked, err
	}
	var err error
	asked.url, err = url.Parse(flags.Arg(0))
	return asked, err
}
