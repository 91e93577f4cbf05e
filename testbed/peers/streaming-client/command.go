package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
)

// What a command gave. The text of a stream is its first bytes.
type outcome struct {
	Code   int    `json:"code"`
	Error  string `json:"error"`
	Sent   string `json:"sent"`
	Stdout output `json:"stdout"`
	Stderr output `json:"stderr"`
}

type output struct {
	Bytes int64  `json:"bytes"`
	Hash  string `json:"sha256"`
	Text  string `json:"text"`
}

func command(asked asked) (outcome, error) {
	executor, err := executor(asked)
	if err != nil {
		return outcome{}, err
	}
	stdout, stderr, sent := collect(), collect(), sha256.New()
	options := remotecommand.StreamOptions{Tty: asked.tty}
	if asked.stdout {
		options.Stdout = stdout
	}
	if asked.stderr {
		options.Stderr = stderr
	}
	if asked.stdin >= 0 {
		options.Stdin = input(asked, sent)
	}
	if asked.sizes != "" {
		options.TerminalSizeQueue = &sizes{rest: strings.Split(asked.sizes, ",")}
	}
	err = executor.StreamWithContext(context.Background(), options)
	result := outcome{Sent: hex.EncodeToString(sent.Sum(nil)), Stdout: stdout.output(), Stderr: stderr.output()}
	var exited exec.CodeExitError
	if errors.As(err, &exited) {
		result.Code = exited.Code
	}
	if err != nil {
		result.Error = err.Error()
	}
	return result, nil
}

func executor(asked asked) (remotecommand.Executor, error) {
	config := &rest.Config{Host: asked.url.Host}
	if asked.transport == "spdy" {
		return remotecommand.NewSPDYExecutor(config, "POST", asked.url)
	}
	return remotecommand.NewWebSocketExecutorForProtocols(config, "GET", asked.url.String(), asked.transport)
}

// Bytes that do not compress and are the same each time.
func noise(seed, length int64) io.Reader {
	return io.LimitReader(rand.New(rand.NewSource(seed)), length)
}

func input(asked asked, sent hash.Hash) io.Reader {
	reader := io.TeeReader(noise(1, asked.stdin), sent)
	if asked.keepOpen {
		never, _ := io.Pipe()
		return io.MultiReader(reader, never)
	}
	return reader
}

type collector struct {
	hash  hash.Hash
	bytes int64
	start bytes.Buffer
}

func collect() *collector {
	return &collector{hash: sha256.New()}
}

func (c *collector) Write(piece []byte) (int, error) {
	c.bytes += int64(len(piece))
	if c.start.Len() < 4096 {
		c.start.Write(piece)
	}
	return c.hash.Write(piece)
}

func (c *collector) output() output {
	return output{Bytes: c.bytes, Hash: hex.EncodeToString(c.hash.Sum(nil)), Text: c.start.String()}
}

// The sizes of a terminal that is never closed.
type sizes struct{ rest []string }

func (s *sizes) Next() *remotecommand.TerminalSize {
	if len(s.rest) == 0 {
		select {}
	}
	size := remotecommand.TerminalSize{}
	if _, err := fmt.Sscanf(s.rest[0], "%dx%d", &size.Width, &size.Height); err != nil {
		return nil
	}
	s.rest = s.rest[1:]
	return &size
}
