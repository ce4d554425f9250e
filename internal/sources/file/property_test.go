package file

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/manifest"
)

// TestConvergesToAFreshReading: after any changes of a directory, in any order, the last Set equals what a new
// Source would read. With inotify there are no comparisons, so each event must be handled. Without it, all
// files are compared.
func TestConvergesToAFreshReading(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parent, err := os.MkdirTemp("", "podstream-property")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(parent)
		dir := filepath.Join(parent, "manifests")
		cfg := Config{
			Path: dir, Node: "node", CheckFrequency: time.Hour, QuietPeriod: 10 * time.Millisecond,
			Logger: slog.New(slog.DiscardHandler),
		}
		s := New(cfg)
		polling := rapid.Bool().Draw(t, "polling")
		if polling {
			s.cfg.CheckFrequency = 10 * time.Millisecond
			s.open = func(string) (*watch, error) { return nil, errors.New("no watch in this test") }
		}

		disk := &disk{parent: parent, dir: dir, links: polling}
		for range rapid.IntRange(0, 5).Draw(t, "changes before") {
			disk.change(t)
		}
		ctx, cancel := context.WithCancel(context.Background())
		sets := make(chan manifest.Set, 1<<12)
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, func(set manifest.Set) { sets <- set }) }()
		defer func() { cancel(); <-done }()
		var last manifest.Set
		if rapid.Bool().Draw(t, "wait for the first Set") {
			last = <-sets
		}
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			disk.change(t)
		}

		want := freshReading(t, cfg)
		timeout := time.After(patience)
		for cmp.Diff(want, plain(last)) != "" {
			select {
			case last = <-sets:
			case <-timeout:
				t.Fatalf("the last Set isn't the content of the directory (-want +got):\n%s", cmp.Diff(want, plain(last)))
			}
		}
	})
}

// disk is a directory that many users change.
type disk struct {
	parent, dir string
	serial      int
	// links: also create a second name for a file. Changes of such a file have an event for at most one of its
	// names.
	links bool
}

// change makes one random change to the directory, or none if it isn't possible now.
func (d *disk) change(t *rapid.T) {
	name := func(label string) string {
		return filepath.Join(d.dir, rapid.SampledFrom([]string{"a.yaml", "b.yaml", "c.json", "d.txt", ".e.yaml"}).Draw(t, label))
	}
	d.serial++
	content := func() []byte {
		return []byte(rapid.SampledFrom([]string{
			"", "junk", "kind: Pod", pod("p", "same"), pod("q", fmt.Sprint("v", d.serial)), pod("r", fmt.Sprint("v", d.serial)),
		}).Draw(t, "content"))
	}
	temp := filepath.Join(d.parent, "temp")
	_ = os.Mkdir(d.dir, 0o755)
	changes := []string{
		"write", "write", "append", "place", "place", "rename", "rename", "remove", "chmod", "mkdir", "pause", "replace", "recreate",
	}
	if d.links {
		changes = append(changes, "link", "symlink")
	}
	switch rapid.SampledFrom(changes).Draw(t, "change") {
	case "write":
		_ = os.WriteFile(name("file"), content(), 0o644)
	case "append":
		if f, err := os.OpenFile(name("file"), os.O_WRONLY|os.O_APPEND, 0); err == nil {
			_, _ = f.Write(content())
			f.Close()
		}
	case "place":
		_ = os.WriteFile(temp, content(), 0o644)
		_ = os.Rename(temp, name("file"))
	case "rename":
		_ = os.Rename(name("from"), name("to"))
	case "remove":
		_ = os.Remove(name("file"))
	case "chmod":
		_ = os.Chmod(name("file"), 0o600)
	case "link":
		_ = os.Link(name("from"), name("to"))
	case "symlink":
		_ = os.Symlink(filepath.Base(name("target")), name("link"))
	case "mkdir":
		_ = os.Mkdir(name("directory"), 0o755)
	case "pause":
		// Long enough for earlier changes to be read, or nearly so.
		timer := time.NewTimer(time.Duration(rapid.IntRange(1, 30).Draw(t, "milliseconds")) * time.Millisecond)
		<-timer.C
	case "replace":
		_ = os.Rename(d.dir, filepath.Join(d.parent, fmt.Sprint("old", d.serial)))
		_ = os.Mkdir(d.dir, 0o755)
	case "recreate":
		_ = os.RemoveAll(d.dir)
		_ = os.Mkdir(d.dir, 0o755)
	}
}

// freshReading returns the first Set of a new Source.
func freshReading(t *rapid.T, cfg Config) []plainOrigin {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var first *manifest.Set
	if err := New(cfg).Run(ctx, func(set manifest.Set) {
		if first == nil {
			first = &set
		}
		cancel()
	}); err != nil {
		t.Fatal(err)
	}
	return plain(*first)
}

// plainOrigin has the compared fields of an Origin.
type plainOrigin struct {
	Name     string
	Held     bool
	Findings []manifest.Finding
	Pods     []string
}

// plain returns the compared fields of a Set; nil if it has an Err, or no origins.
func plain(set manifest.Set) []plainOrigin {
	if set.Err != nil || set.ReadTime.IsZero() {
		return nil
	}
	origins := []plainOrigin{}
	for _, o := range set.Origins {
		p := plainOrigin{Name: o.Name, Held: o.Held, Findings: o.Findings}
		for _, pod := range o.Pods {
			p.Pods = append(p.Pods, fmt.Sprint(pod.Namespace, "/", pod.Name, " ", pod.UID, " ", pod.SpecDigest))
		}
		origins = append(origins, p)
	}
	return origins
}
