package logrotation

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/disktest"
)

// On a full disk logs are rotated, the files keep their number, a compression that fails leaves nothing behind, and is
// logged once. Once there is room again, logs are compressed.
func TestFullDisk(t *testing.T) {
	s := newSite(t)
	s.logs = disktest.Small(t)
	s.start("a")
	m := s.manager(Config{MaxFiles: 4})
	s.write("a", 200)
	m.round(t.Context())
	s.write("a", 200)
	free := disktest.FillUp(t, s.logs)
	// What the removal of an old log frees is filled at once.
	more := filepath.Join(s.logs, "more")
	s.before = func(context.Context, string) error {
		_ = os.WriteFile(more, make([]byte, 1<<20), 0o600)
		return nil
	}
	for range 4 {
		m.round(t.Context())
		if len(s.files("a")) > 4 || s.count("a", ".tmp")+s.count("a", ".gz") > 0 {
			t.Errorf("the files are %q", s.files("a"))
		}
		check(t, os.Truncate(s.writers["a"].path, 2000)) // It takes no room.
	}
	if n := s.requests("a"); n != 5 {
		t.Errorf("%d rotations; want 5", n)
	}
	if n := strings.Count(s.logged(), "can't compress a rotated log"); n != 1 || !strings.Contains(s.logged(), "no space left on device") {
		t.Errorf("the log is %q; want one line", s.logged())
	}
	s.before = nil
	check(t, os.Remove(more))
	free()
	for range 3 { // The files of the full disk have holes.
		s.write("a", 20)
		m.round(t.Context())
	}
	if gz := s.count("a", ".gz"); gz != 2 || len(s.files("a")) != 4 {
		t.Errorf("the files are %q; want 4, 2 of them compressed", s.files("a"))
	}
}

// A rotated log that is still written isn't compressed. It is later.
func TestWrittenLogIsNotCompressed(t *testing.T) {
	s := newSite(t, "a")
	w := s.writers["a"]
	m := s.manager(Config{})
	s.write("a", 10)
	holder, err := os.OpenFile(w.path, os.O_APPEND|os.O_WRONLY, 0)
	check(t, err)
	for range 3 {
		m.round(t.Context())
		s.write("a", 10)
	}
	if got := s.files("a"); strings.HasSuffix(got[1], ".gz") || s.count("a", ".gz") != 1 {
		t.Errorf("the files are %q; want all compressed but the newest and the one that is written", got)
	}
	check(t, holder.Close())
	m.round(t.Context())
	if gz := s.count("a", ".gz"); gz != 3 {
		t.Errorf("the files are %q; want three compressed", s.files("a"))
	}
	if s.logged() != "" {
		t.Error(s.logged())
	}
	s.wantLines("a", 1)
}

// If compression is slower than the container, rotation doesn't wait for it, and the oldest files are removed
// uncompressed.
func TestRotationDoesNotWaitForCompression(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "a")
		m := s.manager(Config{})
		for range 50 {
			s.write("a", 10)
			m.updated = time.Time{}
			for _, c := range m.logs {
				c.next = time.Time{}
			}
			m.lookAtAll(time.Now())
			m.attend(t.Context(), m.due.take())
			if n := len(s.files("a")); n > 5 {
				t.Fatalf("%d files: %q", n, s.files("a"))
			}
		}
		if len(m.uncompressed.logs) != 1 {
			t.Errorf("it is queued %d times", len(m.uncompressed.logs))
		}
		s.wantLines("a", 50*10-4*10+1)
	})
}

// Each container has one file compressed at a time.
func TestCompressionTakesTurns(t *testing.T) {
	s := newSite(t, "a", "b")
	m := s.manager(Config{})
	for _, id := range []string{"a", "b"} {
		s.rotateBy(t, s.writers[id], "0.log.20000101-000000", "0.log.20000101-000001", "0.log.20000101-000002")
	}
	m.lookAtAll(time.Now())
	for c := m.due.take(); c != nil; c = m.due.take() {
		m.attend(t.Context(), c)
	}
	var order []string
	for c := m.uncompressed.take(); c != nil; c = m.uncompressed.take() {
		order = append(order, c.id)
		m.compressOne(t.Context(), c)
	}
	if len(order) != 4 || order[0] == order[1] || order[2] == order[3] {
		t.Errorf("they were compressed in the order %q", order)
	}
	for _, id := range []string{"a", "b"} {
		if got := s.files(id); !slices.Equal(got, []string{"0.log", "0.log.20000101-000000.gz", "0.log.20000101-000001.gz", "0.log.20000101-000002"}) {
			t.Errorf("%s has %q", id, got)
		}
	}
}

// A compression ends without a result when its file grows or is removed, and when podexecd ends.
func TestCompressionEnds(t *testing.T) {
	const name = "0.log.20000101-000000"
	for what, interrupt := range map[string]func(t *testing.T, path string, cancel func()){
		"it grows":      func(t *testing.T, path string, _ func()) { check(t, os.Truncate(path, 5<<20)) },
		"it is removed": func(t *testing.T, path string, _ func()) { check(t, os.Remove(path)) },
		"podexecd ends": func(_ *testing.T, _ string, cancel func()) { cancel() },
	} {
		t.Run(what, func(t *testing.T) {
			s := newSite(t, "a")
			w := s.writers["a"]
			path := filepath.Join(w.dir, name)
			check(t, os.WriteFile(path, make([]byte, 4<<20), 0o600))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			from, err := os.Open(path)
			check(t, err)
			defer func() { _ = from.Close() }()
			to, err := os.Create(path + ".tmp")
			check(t, err)
			defer func() { _ = to.Close() }()
			interrupt(t, path, cancel)
			if err := deflate(ctx, to, from, 4<<20); err == nil {
				t.Error("it is compressed")
			}
		})
	}
}

// A file that a pod has made, sparse or huge, is left as it is. The others are compressed, and one line is logged.
func TestOddFilesAreNotCompressed(t *testing.T) {
	s := newSite(t, "a", "b")
	m := s.manager(Config{MaxSize: 10_000, MaxFiles: 6})
	for _, id := range []string{"a", "b"} {
		s.rotateBy(t, s.writers[id], "0.log.20000101-000000", "0.log.20000101-000001", "0.log.20000101-000002", "0.log.20000101-000003", "0.log.20000101-000004")
	}
	dir := s.writers["a"].dir
	check(t, os.Truncate(filepath.Join(dir, "0.log.20000101-000003"), largeMore+50_000))
	check(t, os.Truncate(filepath.Join(dir, "0.log.20000101-000002"), 1<<20))
	check(t, os.Mkdir(filepath.Join(dir, "0.log.20000101-000001.tmp"), 0o700))
	for range 2 {
		m.round(t.Context())
		m.uncompressed.put(m.logs["a"])
	}
	want := []string{
		"0.log", "0.log.20000101-000000.gz", "0.log.20000101-000001", "0.log.20000101-000001.tmp", "0.log.20000101-000002", "0.log.20000101-000003",
		"0.log.20000101-000004",
	}
	if got := s.files("a"); !slices.Equal(got, want) {
		t.Errorf("the files are %q; want %q", got, want)
	}
	if gz := s.count("b", ".gz"); gz != 4 {
		t.Errorf("the other log has %q", s.files("b"))
	}
	if text := s.logged(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "0.log.20000101-000003 has 1073791824 bytes; want 1073781824 at most") {
		t.Errorf("the log is %q; want one line", text)
	}
}

// slowClock measures five seconds for everything.
type slowClock struct{ clock.RealClock }

func (slowClock) Since(time.Time) time.Duration { return 5 * time.Second }

// A compression has a time limit. One that takes long and fails isn't tried again soon.
func TestCompressionTimeLimit(t *testing.T) {
	s := newSite(t, "a")
	m := s.manager(Config{CompressTimeout: 1, Clock: slowClock{}})
	s.rotateBy(t, s.writers["a"], "0.log.20000101-000000", "0.log.20000101-000001")
	m.round(t.Context())
	if gz := s.count("a", ".gz") + s.count("a", ".tmp"); gz != 0 || !strings.Contains(s.logged(), "its compression took longer than 1ns") {
		t.Errorf("the files are %q, and the log is %q", s.files("a"), s.logged())
	}
	m.cfg.CompressTimeout = time.Hour
	m.compressOne(t.Context(), m.logs["a"])
	if pause := time.Until(m.logs["a"].compressNext); s.count("a", ".gz") != 0 || pause < 50*time.Second || pause > 55*time.Second {
		t.Errorf("the files are %q, and the next attempt is in %v", s.files("a"), pause)
	}
	m.logs["a"].compressNext = time.Time{}
	m.compressOne(t.Context(), m.logs["a"])
	if s.count("a", ".gz") != 1 {
		t.Errorf("the files are %q", s.files("a"))
	}
}
