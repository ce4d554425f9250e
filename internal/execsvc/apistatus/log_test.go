package apistatus_test

import (
	"bytes"
	"strings"
	"sync"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// logBuffer is written by several goroutines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// take returns the lines so far, and forgets them.
func (l *logBuffer) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.b.Reset()
	return strings.Split(strings.TrimSuffix(l.b.String(), "\n"), "\n")
}

// wantLog checks the levels and messages of what was logged since the last time.
func (n *node) wantLog(want ...string) {
	n.t.Helper()
	var got []string
	for _, line := range n.log.take() {
		if _, rest, ok := strings.Cut(line, "level="); ok {
			level, message, _ := strings.Cut(rest, " ")
			got = append(got, level+" "+strings.SplitN(message, `"`, 3)[1])
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		n.t.Errorf("the log (-want +got):\n%s", diff)
	}
}
