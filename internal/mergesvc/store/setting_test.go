package store_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/store"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(committerEnv); path != "" {
		os.Exit(commitForever(path))
	}
	goleak.VerifyTestMain(m)
}

// setting is a store's path, and its log.
type setting struct {
	cfg store.Config
	log *bytes.Buffer
}

func newSetting(t testing.TB) *setting { return settingIn(t.TempDir()) }

func settingIn(dir string) *setting {
	log := &bytes.Buffer{}
	return &setting{log: log, cfg: store.Config{
		Path: filepath.Join(dir, "state.db"), NoSync: true, Logger: slog.New(slog.NewTextHandler(log, nil)),
		Now: func() time.Time { return time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC) },
	}}
}

func (s *setting) open(t testing.TB) (*store.Store, *store.Contents) {
	t.Helper()
	st, c, err := store.Open(s.cfg)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st, c
}

// contents opens the store only to read it.
func (s *setting) contents(t testing.TB) *store.Contents {
	t.Helper()
	st, c := s.open(t)
	mustClose(t, st)
	return c
}

// aside returns the names of the files that were set aside, without the store's name.
func (s *setting) aside(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(s.cfg.Path))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		if suffix := strings.TrimPrefix(e.Name(), filepath.Base(s.cfg.Path)); suffix != "" {
			names = append(names, suffix)
		}
	}
	return names
}

func mustCommit(t testing.TB, st *store.Store, revs ...*revision.Revision) {
	t.Helper()
	if err := st.Commit(revs); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

func mustClose(t testing.TB, st *store.Store) {
	t.Helper()
	if err := st.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

func change(op revision.Op, pods ...*revision.Pod) revision.Change {
	return revision.Change{Op: op, Source: "file", Pods: pods}
}

func rev(number uint64, changes ...revision.Change) *revision.Revision {
	return &revision.Revision{Number: number, Source: "file", Changes: changes}
}
