package client

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A file of a TLS may be a pipe. The time for a silent one is bounded, and so is the size of an endless file.
func TestFilesAreBounded(t *testing.T) {
	before := fileTimeout
	fileTimeout = 50 * time.Millisecond
	defer func() { fileTimeout = before }()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := readFile(fifo); err != nil || len(data) > 0 {
		t.Errorf("without a writer: %q, %v", data, err)
	}
	writer, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if _, err := readFile(fifo); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with a writer that writes nothing: %v", err)
	}
	if _, err := readFile("/dev/zero"); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("without an end: %v", err)
	}
	if _, err := (TLS{CertFile: fifo, KeyFile: fifo}).TransportCredentials(nil); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the credentials: %v", err)
	}
}
