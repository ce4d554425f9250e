package podconfigd

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/kubeletconfig"
)

// watchConfig runs a watch until the test ends, and awaits its first look.
func watchConfig(t *testing.T, w *configWatch) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	<-w.look
}

// TestWatchConcerns: only a change of the configuration is looked at.
func TestWatchConcerns(t *testing.T) {
	w := newConfigWatch(kubeletconfig.Paths{Config: "/etc/p/config", Dir: "/etc/p/conf.d"}, time.Hour, discard())
	for path, want := range map[string]bool{
		"config": true, "..data": true, "conf.d": true, "conf.d/x.conf": true, "conf.d/a/b": true, "other": false, "conf.d.bak": false,
	} {
		if got := w.concerns("/etc/p/" + path); got != want {
			t.Errorf("%s is the configuration's: %v; want %v", path, got, want)
		}
	}
}

// TestWatchEvents: each change is looked at, also in a directory that came later. Each has a watch of its own, so
// that no look can be that of another change.
func TestWatchEvents(t *testing.T) {
	write := func(path string) error { return os.WriteFile(path, nil, 0o600) }
	mkdir := func(path string) error { return os.Mkdir(path, 0o700) }
	for name, tc := range map[string]struct {
		before, then func(path string) error
		path         string
	}{
		"created":                      {nil, write, "config"},
		"removed":                      {write, os.Remove, "config"},
		"drop-in created":              {nil, write, "conf.d/x.conf"},
		"drop-in removed":              {write, os.Remove, "conf.d/x.conf"},
		"directory of drop-ins":        {nil, mkdir, "conf.d/more"},
		"directory of drop-ins, empty": {mkdir, os.Remove, "conf.d/more"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, tc.path)
			if err := os.Mkdir(filepath.Join(dir, "conf.d"), 0o700); err != nil {
				t.Fatal(err)
			}
			if tc.before != nil {
				if err := tc.before(path); err != nil {
					t.Fatal(err)
				}
			}
			w := newConfigWatch(kubeletconfig.Paths{Config: filepath.Join(dir, "config"), Dir: filepath.Join(dir, "conf.d")}, time.Hour, discard())
			w.gather = time.Millisecond
			watchConfig(t, w)
			if err := tc.then(path); err != nil {
				t.Fatal(err)
			}
			<-w.look
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				if err := write(filepath.Join(path, "y.conf")); err != nil {
					t.Fatal(err)
				}
				<-w.look
			}
		})
	}
}

// TestWatchPoll: files without events are polled, even if only flags name them.
func TestWatchPoll(t *testing.T) {
	for _, paths := range []kubeletconfig.Paths{{Config: "/does/not/exist"}, {}} {
		w := newConfigWatch(paths, time.Millisecond, discard())
		w.gather = time.Hour
		watchConfig(t, w)
		<-w.poll
		<-w.poll
	}
}
