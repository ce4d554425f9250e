package podbench

import (
	"bufio"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// The paths of the pipe in a pod.
const (
	pipeDirInPod = "/bench"
	pipeInPod    = pipeDirInPod + "/pipe"
)

// patience bounds every wait.
const patience = 2 * time.Minute

// pipe is the pipe to which the processes of a node's pods write. A line is one write, so lines of several
// processes don't mix.
type pipe struct {
	dir   string
	lines chan line
}

type line struct {
	text string
	// at is when it was read.
	at time.Time
}

// newPipe creates a pipe in a separate directory, which pods mount.
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
	// Opened for reading and writing, so that reads don't end and the open doesn't block.
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

// await returns when it has read the last of these lines. It skips others.
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
			b.Fatalf("not within %v: %d of %d lines are missing, one is %q", patience, len(missing), len(texts), anyOf(missing))
		}
	}
}

func anyOf(set map[string]bool) string {
	for s := range set {
		return s
	}
	return ""
}
