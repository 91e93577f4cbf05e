package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// How many connections brought back what was sent, and why the others did not.
type forwarded struct {
	Same   int      `json:"same"`
	Errors []string `json:"errors"`
}

func forward(asked asked) (forwarded, error) {
	dialer, err := dialer(asked)
	if err != nil {
		return forwarded{}, err
	}
	stop, ready := make(chan struct{}), make(chan struct{})
	ports := []string{fmt.Sprintf("0:%d", asked.port)}
	var said bytes.Buffer
	forwarder, err := portforward.New(dialer, ports, stop, ready, io.Discard, io.MultiWriter(&said, os.Stderr))
	if err != nil {
		return forwarded{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case err := <-ended:
		return forwarded{}, fmt.Errorf("ended before it was ready: %v", err)
	case <-ready:
	}
	local, err := forwarder.GetPorts()
	if err != nil {
		return forwarded{}, err
	}
	result := connect(asked, fmt.Sprintf("127.0.0.1:%d", local[0].Local))
	close(stop)
	return result, <-ended
}

func dialer(asked asked) (httpstream.Dialer, error) {
	config := &rest.Config{Host: asked.url.Host}
	if asked.transport == "tunnel" {
		return portforward.NewSPDYOverWebsocketDialer(asked.url, config)
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	return spdy.NewDialer(upgrader, &http.Client{Transport: transport}, "POST", asked.url), nil
}

func connect(asked asked, address string) forwarded {
	results := make(chan error, asked.connections)
	for i := 0; i < asked.connections; i++ {
		go func() { results <- echo(int64(i), asked.bytes, address) }()
	}
	result := forwarded{Errors: []string{}}
	for i := 0; i < asked.connections; i++ {
		if err := <-results; err != nil {
			result.Errors = append(result.Errors, err.Error())
		} else {
			result.Same++
		}
	}
	return result
}

// Sends, says that this was all, and reads until the other side says so too.
func echo(seed, length int64, address string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	sent, received := sha256.New(), sha256.New()
	written := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.MultiWriter(conn, sent), noise(seed, length))
		if err == nil {
			err = conn.(*net.TCPConn).CloseWrite()
		}
		written <- err
	}()
	got, err := io.Copy(received, conn)
	if err != nil {
		return err
	}
	if err := <-written; err != nil {
		return err
	}
	if !bytes.Equal(sent.Sum(nil), received.Sum(nil)) {
		return fmt.Errorf("connection %d: %d of %d bytes came back, or others", seed, got, length)
	}
	return nil
}
