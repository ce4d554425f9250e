package podbench

import (
	"bufio"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Where a pod finds the pipe.
const (
	pipeDirInPod = "/bench"
	pipeInPod    = pipeDirInPod + "/pipe"
)

// patience bounds every wait.
const patience = 2 * time.Minute

// pipe is what the processes of a node's pods write to. A line is one write, so those of several don't mix.
type pipe struct {
	dir   string
	lines chan line
}

type line struct {
	text string
	// at is when it came.
	at time.Time
}

// newPipe makes a pipe in a directory of its own, which pods mount.
func newPipe(b *testing.B, dir string) *pipe {
	b.Helper()
	path := filepath.Join(dir, filepath.Base(pipeInPod))
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = syscall.Mkfifo(path, 0o666)
	}
	if err != nil {
		b.Fatal(err)
	}
	// Open for reading and writing, so that it never ends and an open doesn't block.
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	p := &pipe{dir: dir, lines: make(chan line, 10000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for scanner := bufio.NewScanner(file); scanner.Scan(); {
			p.lines <- line{scanner.Text(), time.Now()}
		}
	}()
	b.Cleanup(func() { _ = file.Close(); <-done })
	return p
}

// await returns when the last of these lines came. Others are skipped.
func (p *pipe) await(b *testing.B, texts ...string) time.Time {
	b.Helper()
	missing := map[string]bool{}
	for _, t := range texts {
		missing[t] = true
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case l := <-p.lines:
			if delete(missing, l.text); len(missing) == 0 {
				return l.at
			}
		case <-late.C:
			b.Fatalf("not within %v: %d of %d lines, %q one of them", patience, len(missing), len(texts), anyOf(missing))
		}
	}
}

func anyOf(set map[string]bool) string {
	for s := range set {
		return s
	}
	return ""
}
