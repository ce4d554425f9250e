package logrotation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// After a kill between any two steps, the next podexecd leaves the files as they should be, and no line is lost.
func TestRecovery(t *testing.T) {
	const first, second = "0.log.20000101-000000", "0.log.20000101-000001"
	for name, tc := range map[string]struct {
		// leave makes the state that is left; exited is whether the container has ended by then.
		leave  func(t *testing.T, s *site, w *writer)
		exited bool
		// want are the files afterwards.
		want []string
	}{
		"renamed": {
			leave: func(t *testing.T, _ *site, w *writer) { check(t, os.Rename(w.path, filepath.Join(w.dir, first))) },
			want:  []string{"0.log", first},
		},
		"renamed, and the container has ended": {
			leave:  func(t *testing.T, _ *site, w *writer) { check(t, os.Rename(w.path, filepath.Join(w.dir, first))) },
			exited: true, want: []string{"0.log"},
		},
		"renamed, and a pod has made the log": {
			leave: func(t *testing.T, _ *site, w *writer) {
				check(t, errors.Join(os.Rename(w.path, filepath.Join(w.dir, first)), os.WriteFile(w.path, nil, 0o600)))
			},
			want: []string{"0.log", first},
		},
		"not compressed": {
			leave: func(t *testing.T, s *site, w *writer) { s.rotateBy(t, w, first, second) },
			want:  []string{"0.log", first + ".gz", second},
		},
		"half compressed": {
			leave: func(t *testing.T, s *site, w *writer) {
				s.rotateBy(t, w, first, second)
				check(t, os.WriteFile(filepath.Join(w.dir, first+".tmp"), []byte("half"), 0o600))
			},
			want: []string{"0.log", first + ".gz", second},
		},
		"compressed, and not removed": {
			leave: func(t *testing.T, s *site, w *writer) {
				s.rotateBy(t, w, first, second)
				m := s.manager(Config{})
				m.round(t.Context())
				check(t, os.WriteFile(filepath.Join(w.dir, first), []byte(s.text("a", first+".gz")), 0o600))
			},
			want: []string{"0.log", first + ".gz", second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, "a")
				w := s.writers["a"]
				s.write("a", 2)
				tc.leave(t, s, w)
				s.write("a", 2)
				if tc.exited {
					s.exit("a")
				}
				m := s.manager(Config{})
				m.round(t.Context())
				if !tc.exited {
					s.write("a", 2)
					if text := s.text("a", "0.log"); !strings.Contains(text, fmt.Sprint(w.last)) {
						t.Errorf("the runtime writes to another file than the log")
					}
				}
				if got := s.files("a"); !slices.Equal(got, tc.want) {
					t.Errorf("the files are %q; want %q", got, tc.want)
				}
				s.wantLines("a", 1)
				if s.logged() != "" {
					t.Error(s.logged())
				}
				before := s.requests("a")
				time.Sleep(time.Minute)
				m.round(t.Context())
				if n := s.requests("a"); n != before {
					t.Errorf("%d more requests", n-before)
				}
			})
		})
	}
}

// rotateBy rotates the log to those names, and writes lines to each.
func (s *site) rotateBy(t *testing.T, w *writer, names ...string) {
	t.Helper()
	for _, name := range names {
		check(t, os.Rename(w.path, filepath.Join(w.dir, name)))
		check(t, w.open())
		s.write("a", 2)
	}
}
