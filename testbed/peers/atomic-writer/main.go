// The kubelet's own atomic writer behind a line protocol, so that the benchmark can drive it side by side
// with ours. Commands come on stdin, one answer in JSON goes to stdout for each:
//
//	open DIR KEYS BYTES   a volume in the existing directory DIR, with so many files of so many bytes
//	update N              write N times, each time with all content changed
//	same N                write N times with nothing changed
//
// Times are in nanoseconds: of each write, and of all. Making the content is not in them.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"k8s.io/kubernetes/pkg/volume/util"
)

type answer struct {
	WallNs int64   `json:"wallNs"`
	Ns     []int64 `json:"ns"`
	Held   int     `json:"held"`
	Error  string  `json:"error,omitempty"`
}

type volume struct {
	writer *util.AtomicWriter
	// Two sets that differ in every file, written in turn.
	sets [2]map[string]util.FileProjection
	turn int
}

func main() {
	v := &volume{}
	in := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		a, err := v.obey(strings.Fields(in.Text()))
		if err != nil {
			a.Error = err.Error()
		}
		if a.Ns == nil {
			a.Ns = []int64{}
		}
		if err := out.Encode(a); err != nil {
			fmt.Fprintln(os.Stderr, "error: cannot answer:", err)
			os.Exit(1)
		}
	}
}

func (v *volume) obey(words []string) (answer, error) {
	switch {
	case len(words) == 4 && words[0] == "open":
		keys, err := strconv.Atoi(words[2])
		if err != nil {
			return answer{}, err
		}
		size, err := strconv.Atoi(words[3])
		if err != nil {
			return answer{}, err
		}
		v.sets = [2]map[string]util.FileProjection{set(keys, size, 'a'), set(keys, size, 'b')}
		v.writer, err = util.NewAtomicWriter(words[1], "bench")
		return answer{}, err
	case len(words) == 2 && (words[0] == "update" || words[0] == "same"):
		times, err := strconv.Atoi(words[1])
		if err != nil {
			return answer{}, err
		}
		return v.write(times, words[0] == "update")
	}
	return answer{}, fmt.Errorf("unknown command %q", strings.Join(words, " "))
}

func set(keys, size int, fill byte) map[string]util.FileProjection {
	files := make(map[string]util.FileProjection, keys)
	for i := range keys {
		files[fmt.Sprintf("key-%04d", i)] = util.FileProjection{Data: bytes.Repeat([]byte{fill}, size), Mode: 0644}
	}
	return files
}

func (v *volume) write(times int, change bool) (answer, error) {
	if v.writer == nil {
		return answer{}, fmt.Errorf("no volume is open")
	}
	a := answer{Ns: make([]int64, 0, times)}
	began := time.Now()
	for range times {
		if change {
			v.turn = 1 - v.turn
		}
		start := time.Now()
		if err := v.writer.Write(v.sets[v.turn], nil); err != nil {
			return answer{}, err
		}
		a.Ns = append(a.Ns, time.Since(start).Nanoseconds())
	}
	a.WallNs = time.Since(began).Nanoseconds()
	return a, nil
}
