// The kubelet's own user namespace manager behind a line protocol, so that the benchmark can drive it
// side by side with the ledger. Commands come on stdin, one answer in JSON goes to stdout for each:
//
//	open DIR              make the manager over DIR, which holds one directory per pod
//	prepare N             make the directories of the next N pods, as the kubelet has before it asks
//	lease N               lease to N new pods, one after the other
//	lease-threads T N     lease to N new pods in each of T threads at once
//	release N             release the N pods that have held theirs longest
//	restart               make the manager anew from what is on disk
//
// Times are in nanoseconds: of each operation, and of the whole command. What is not the manager's own
// work (making pod objects, making pod directories) is not in them.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
)

type answer struct {
	WallNs int64   `json:"wallNs"`
	Ns     []int64 `json:"ns"`
	Held   int     `json:"held"`
	Error  string  `json:"error,omitempty"`
}

func main() {
	node := &node{}
	in := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		a, err := node.obey(strings.Fields(in.Text()))
		if err != nil {
			a.Error = err.Error()
		}
		if a.Ns == nil {
			a.Ns = []int64{}
		}
		a.Held = len(node.held)
		if err := out.Encode(a); err != nil {
			fmt.Fprintln(os.Stderr, "error: cannot answer:", err)
			os.Exit(1)
		}
	}
}

func (n *node) obey(words []string) (answer, error) {
	if len(words) == 0 {
		return answer{}, fmt.Errorf("an empty command")
	}
	if words[0] == "open" && len(words) == 2 {
		return n.open(words[1])
	}
	numbers, err := atoi(words[1:])
	if err != nil {
		return answer{}, err
	}
	switch {
	case words[0] == "restart" && len(numbers) == 0:
		return n.restart()
	case words[0] == "prepare" && len(numbers) == 1:
		return answer{}, n.prepare(numbers[0])
	case words[0] == "lease" && len(numbers) == 1:
		return n.lease(1, numbers[0])
	case words[0] == "lease-threads" && len(numbers) == 2:
		return n.lease(numbers[0], numbers[1])
	case words[0] == "release" && len(numbers) == 1:
		return n.release(numbers[0])
	}
	return answer{}, fmt.Errorf("unknown command %q", strings.Join(words, " "))
}

func atoi(words []string) ([]int, error) {
	numbers := make([]int, 0, len(words))
	for _, word := range words {
		number, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("%q is not a number", word)
		}
		numbers = append(numbers, number)
	}
	return numbers, nil
}
