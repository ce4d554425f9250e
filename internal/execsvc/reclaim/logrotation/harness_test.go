package logrotation

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site has containers whose logs are written and rotated. It is the container runtime.
type site struct {
	t    *testing.T
	logs string

	mu sync.Mutex
	// before is called at each request to reopen a log, without the lock. An error fails the request, which then has no
	// effect; late is that it has.
	before func(ctx context.Context, id string) error
	late   bool
	pods   []*observed.Pod
	// writers are by container ID. calls are the requests.
	writers map[string]*writer
	calls   []string
	// output is the manager's log.
	output bytes.Buffer
}

// writer is a container that writes numbered lines, as a runtime writes them: to its open file.
type writer struct {
	dir, path string
	file      *os.File
	last      int
}

func newSite(t *testing.T, ids ...string) *site {
	t.Helper()
	s := &site{t: t, logs: t.TempDir(), writers: map[string]*writer{}}
	t.Cleanup(func() {
		for _, w := range s.writers {
			_ = w.file.Close()
		}
	})
	for _, id := range ids {
		s.start(id)
	}
	return s
}

func (s *site) start(id string) *writer {
	s.t.Helper()
	w := &writer{dir: filepath.Join(s.logs, "default_"+id+"_uid-"+id, "main")}
	w.path = filepath.Join(w.dir, "0.log")
	check(s.t, os.MkdirAll(w.dir, 0o755))
	s.writers[id] = w
	check(s.t, w.open())
	s.pods = append(s.pods, &observed.Pod{
		UID: types.UID("uid-" + id), Namespace: "default", Name: id,
		Containers: []observed.Container{{ID: id, Name: "main", State: observed.Running}},
	})
	return w
}

// exit ends the container.
func (s *site) exit(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range s.pods {
		if p.Name == id {
			ended := *p
			ended.Containers = []observed.Container{{ID: id, Name: "main", State: observed.Exited}}
			s.pods[i] = &ended
		}
	}
}

func (s *site) list() []*observed.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pods)
}

// ReopenContainerLog implements Runtime.
func (s *site) ReopenContainerLog(ctx context.Context, id string) error {
	s.mu.Lock()
	s.calls = append(s.calls, id)
	before := s.before
	s.mu.Unlock()
	var err error
	if before != nil {
		err = before(ctx, id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && !s.late {
		return err
	}
	for _, p := range s.pods {
		if p.Name == id && p.Containers[0].State != observed.Running {
			return errors.New("container is not running")
		}
	}
	return errors.Join(err, s.writers[id].open())
}

func (s *site) requests(id string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c == id {
			n++
		}
	}
	return n
}

func (w *writer) open() error {
	f, err := os.OpenFile(w.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	if w.file != nil {
		_ = w.file.Close()
	}
	w.file = f
	return nil
}

// write writes lines of 100 bytes to the log, whatever its name is.
func (s *site) write(id string, lines int) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.writers[id]
	var text []byte
	for range lines {
		w.last++
		text = fmt.Appendf(text, "%-99d\n", w.last)
	}
	_, err := w.file.Write(text)
	check(s.t, err)
}

// manager returns a Manager with these settings, and the site's.
func (s *site) manager(cfg Config) *Manager {
	cfg.Runtime, cfg.Pods, cfg.LogsDir = s, s.list, s.logs
	cfg.Logger = slog.New(slog.NewTextHandler(&lockedWriter{s: s}, nil))
	if cfg.MaxSize == 0 {
		cfg.MaxSize = 1000
	}
	if cfg.MaxFiles == 0 {
		cfg.MaxFiles = 5
	}
	return New(cfg)
}

// lockedWriter is the site's output.
type lockedWriter struct{ s *site }

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.s.output.Write(p)
}

func (s *site) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.String()
}

// round looks at all logs and does what is due, in this goroutine.
func (m *Manager) round(ctx context.Context) {
	m.updated = m.updated.Add(-m.cfg.Interval)
	for _, c := range m.logs {
		c.next = c.next.Add(-maxBackoff)
	}
	m.lookAtAll(m.cfg.Clock.Now())
	for c := m.due.take(); c != nil; c = m.due.take() {
		m.attend(ctx, c)
	}
	for c := m.uncompressed.take(); c != nil; c = m.uncompressed.take() {
		m.compressOne(ctx, c)
	}
}

// files returns the names of the container's files.
func (s *site) files(id string) (names []string) {
	s.t.Helper()
	entries, err := os.ReadDir(s.writers[id].dir)
	check(s.t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// count returns how many of the container's files have the suffix.
func (s *site) count(id, suffix string) (n int) {
	for _, name := range s.files(id) {
		if strings.HasSuffix(name, suffix) {
			n++
		}
	}
	return n
}

// wantLines fails unless the files have the lines up to the last one without a gap or repetition, at least from the
// given one on.
func (s *site) wantLines(id string, from int) {
	s.t.Helper()
	names := s.files(id)
	slices.SortFunc(names, func(a, b string) int {
		if a == "0.log" {
			return 1
		}
		if b == "0.log" {
			return -1
		}
		return strings.Compare(strings.TrimSuffix(a, ".gz"), strings.TrimSuffix(b, ".gz"))
	})
	next := 0
	for _, name := range names {
		if strings.HasSuffix(name, ".tmp") {
			continue
		}
		for line := range strings.Lines(s.text(id, name)) {
			n := 0
			if _, err := fmt.Sscan(line, &n); err != nil || next != 0 && n != next {
				s.t.Errorf("%s: %d follows %d", name, n, next-1)
				return
			}
			if next == 0 && n > from {
				s.t.Errorf("the first line is %d; want %d", n, from)
			}
			next = n + 1
		}
	}
	if last := s.writers[id].last; next != last+1 {
		s.t.Errorf("the last line is %d; want %d; %q", next-1, last, names)
	}
}

func (s *site) text(id, name string) string {
	s.t.Helper()
	f, err := os.Open(filepath.Join(s.writers[id].dir, name))
	check(s.t, err)
	defer func() { _ = f.Close() }()
	from := io.Reader(f)
	if strings.HasSuffix(name, ".gz") {
		from, err = gzip.NewReader(f)
		check(s.t, err)
	}
	text, err := io.ReadAll(from)
	check(s.t, err)
	return string(text)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
