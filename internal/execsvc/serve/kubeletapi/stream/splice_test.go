package stream

import (
	"io"
	"net"
	"testing"
	"time"
)

// lateReader is a connection from which nothing is read until a write to it has failed.
type lateReader struct {
	*net.TCPConn
	failed chan struct{}
}

// Read implements io.Reader.
func (l *lateReader) Read(p []byte) (int, error) {
	<-l.failed
	return l.TCPConn.Read(p)
}

// Write implements io.Writer. It isn't called again after an error.
func (l *lateReader) Write(p []byte) (int, error) {
	n, err := l.TCPConn.Write(p)
	if err != nil {
		close(l.failed)
	}
	return n, err
}

// TestSpliceLastOutput: a runtime that ends a stream closes its connection while input is on its way to it, which
// resets the connection. The caller still gets all of the output.
func TestSpliceLastOutput(t *testing.T) {
	client, caller := tcpPair(t)
	backend, runtime := tcpPair(t)
	spliced := make(chan struct{})
	go func() {
		defer close(spliced)
		splice(t.Context(), caller, &lateReader{backend, make(chan struct{})}, "", time.Minute)
	}()
	go func() {
		for {
			if _, err := client.Write([]byte("input")); err != nil {
				return
			}
		}
	}()
	_, _ = runtime.Read(make([]byte, 1))
	if _, err := runtime.Write([]byte("last words")); err != nil {
		t.Fatal(err)
	}
	_ = runtime.Close()
	got, err := io.ReadAll(client)
	if err != nil || string(got) != "last words" {
		t.Fatalf("the caller got %q, error %v; want the last words", got, err)
	}
	_ = client.Close()
	<-spliced
}

// TestSpliceCallerThatSendsForEver: once the runtime has ended a stream, a caller that goes on sending doesn't keep it.
func TestSpliceCallerThatSendsForEver(t *testing.T) {
	client, caller := tcpPair(t)
	backend, runtime := tcpPair(t)
	_ = runtime.Close()
	const idle = 300 * time.Millisecond // less than linger
	spliced := make(chan struct{})
	go func() {
		defer close(spliced)
		splice(t.Context(), caller, backend, "", idle)
	}()
	for {
		if _, err := client.Write([]byte("input")); err != nil {
			break // splice closed the connection.
		}
	}
	<-spliced
}
