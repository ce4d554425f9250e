package containergc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// node is a directory in the layout of /var/log.
type node struct{ root, logs, links string }

func newNode(t *testing.T) node {
	t.Helper()
	root := t.TempDir()
	n := node{root: root, logs: filepath.Join(root, "pods"), links: filepath.Join(root, "containers")}
	for _, dir := range []string{n.logs, n.links} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// logDir makes a directory of logs with one log, c/0.log.
func (n node) logDir(t *testing.T, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(n.logs, name, "c"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(n.logs, name, "c/0.log"))
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// link makes a link; target is relative to the root, or absolute.
func (n node) link(t *testing.T, target, path string) {
	t.Helper()
	if !filepath.IsAbs(target) {
		target = filepath.Join(n.root, target)
	}
	if err := os.Symlink(target, filepath.Join(n.root, path)); err != nil {
		t.Fatal(err)
	}
}

// want fails the test unless the two directories have exactly these entries.
func (n node) want(t *testing.T, paths ...string) {
	t.Helper()
	var got []string
	for _, dir := range []string{"pods", "containers"} {
		entries, err := os.ReadDir(filepath.Join(n.root, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range entries {
			got = append(got, dir+"/"+e.Name())
		}
	}
	slices.Sort(got)
	slices.Sort(paths)
	if diff := cmp.Diff(paths, got); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

// collect runs a round after d.
func (n node) collect(t *testing.T, after time.Duration, found ...*observed.Pod) {
	t.Helper()
	c := New(Config{Runtime: &removals{}, LogsDir: n.logs + "/", MaxContainers: -1, Clock: clocktesting.NewFakePassiveClock(time.Now().Add(after))})
	if err := c.Collect(t.Context(), found, none, true); err != nil {
		t.Fatal(err)
	}
}

func TestIsPodLogDir(t *testing.T) {
	for dir, want := range map[string]bool{
		"default_web-node1_0f1e":             true,
		"kube-system_a.b_8f0c-1d_x":          true,
		"default_web_":                       false,
		"default_web_..":                     false,
		"default_web":                        false,
		"default__0f1e":                      false,
		"_web_0f1e":                          false,
		"My_own_files":                       false,
		"lost+found":                         false,
		"default_web-node1_0f1e\x00":         false,
		"default.with.dots_web-node1_0f1e":   false,
		"default_web-node1_a" + "/../../etc": false,
	} {
		if got := isPodLogDir(dir); got != want {
			t.Errorf("isPodLogDir(%q) = %v; want %v", dir, got, want)
		}
	}
}

// Logs are removed with their pods, by the pod workers. The logs of unknown pods may belong to another agent.
func TestLogsStay(t *testing.T) {
	n := newNode(t)
	n.logDir(t, "default_found_u1")
	n.logDir(t, "default_unknown_u2")
	n.collect(t, time.Hour, pod("u1"))
	n.want(t, "pods/default_found_u1", "pods/default_unknown_u2")
}

func TestLinks(t *testing.T) {
	running, dead := inState(observed.Running, "c", 1), exited("c", 0, 1)
	runs := pod("u1", running, dead)
	runs.Name = "runs"
	linkOf := func(c observed.Container) string {
		return "containers/" + podmeta.LogLinkName("default", "runs", c.Name, c.ID)
	}
	way := pod("u8")
	way.Name = "way"
	for name, tc := range map[string]struct {
		link, target string
		stays        bool
	}{
		"log exists":                             {linkOf(dead), "pods/default_runs_u1/c/0.log", true},
		"log missing":                            {linkOf(dead), "pods/default_runs_u1/c/7.log", false},
		"container and log missing":              {"containers/x.log", "pods/default_runs_u1/c/7.log", false},
		"log in rotation":                        {linkOf(running), "pods/default_runs_u1/c/1.log", true},
		"pod missing":                            {"containers/x.log", "pods/default_gone_u9/c/0.log", false},
		"another agent's":                        {"containers/x.log", "pods/default_another_u2/c/0.log", true},
		"another agent's, which rotates the log": {"containers/x.log", "pods/default_another_u2/c/7.log", true},
		"another pod with our UID":               {"containers/x.log", "pods/default_another_u1/c/7.log", true},
		"log directory that can't be read":       {"containers/x.log", "pods/default_cycle_u3/c/0.log", true},
		"a pod's directory":                      {"containers/x.log", "pods/default_gone_u9", true},
		"not to a pod's log":                     {"containers/x.log", "pods/other/c/0.log", true},
		"elsewhere":                              {"containers/x.log", "elsewhere/0.log", true},
		"path with the same prefix":              {"containers/x.log", "pods2/default_gone_u9/c/0.log", true},
		"path that leaves the logs":              {"containers/x.log", "pods/default_gone_u9/../../elsewhere", true},
		"through a link within the logs":         {"containers/x.log", "pods/default_way_u8/in/9.log", false},
		"through a link out of the logs":         {"containers/x.log", "pods/default_way_u8/out/9.log", true},
		"to a link out of the logs":              {"containers/x.log", "pods/default_way_u8/out", true},
		"to a dangling link within the logs":     {"containers/x.log", "pods/default_way_u8/dangling", false},
		"through a directory that is a link":     {"containers/x.log", "pods/default_lost_u4/c/0.log", true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			left := []string{"pods/default_another_u1", "pods/default_another_u2", "pods/default_runs_u1", "pods/default_way_u8"}
			for _, dir := range left {
				n.logDir(t, filepath.Base(dir))
			}
			n.link(t, "pods/default_cycle_u3", "pods/default_cycle_u3")
			n.link(t, "nothing", "pods/default_lost_u4")
			left = append(left, "pods/default_cycle_u3", "pods/default_lost_u4")
			for link, target := range map[string]string{"in": "c", "out": n.root, "dangling": "nothing"} {
				if err := os.Symlink(target, filepath.Join(n.logs, "default_way_u8", link)); err != nil {
					t.Fatal(err)
				}
			}
			n.link(t, tc.target, tc.link)
			if tc.target == "pods/default_gone_u9/../../elsewhere" {
				// filepath.Join has cleaned it.
				path := filepath.Join(n.root, tc.link)
				if err := errors.Join(os.Remove(path), os.Symlink(n.root+"/"+tc.target, path)); err != nil {
					t.Fatal(err)
				}
			}
			n.collect(t, time.Hour, runs, way)
			if tc.stays {
				left = append(left, tc.link)
			}
			n.want(t, left...)
		})
	}
}

func TestRelativeLink(t *testing.T) {
	n := newNode(t)
	for link, target := range map[string]string{"a.log": "../pods/default_gone_u1/c/0.log", "b.log": "0.log"} {
		if err := os.Symlink(target, filepath.Join(n.links, link)); err != nil {
			t.Fatal(err)
		}
	}
	n.collect(t, time.Hour)
	n.want(t, "containers/b.log")
}

// The link of a container that is about to start exists before its log.
func TestYoungLinkStays(t *testing.T) {
	n := newNode(t)
	n.link(t, "pods/default_new_u1/c/0.log", "containers/x.log")
	// The clock may have been set back.
	for _, after := range []time.Duration{-time.Hour, 0, minLinkAge - 10*time.Second} {
		n.collect(t, after)
		n.want(t, "containers/x.log")
	}
	n.collect(t, minLinkAge)
	n.want(t)
}

// Files that aren't links are ignored.
func TestFilesStay(t *testing.T) {
	n := newNode(t)
	write(t, filepath.Join(n.links, "file.log"))
	n.collect(t, time.Hour)
	n.want(t, "containers/file.log")
}

// The logs directory may be a link itself, to a larger disk.
func TestLogsElsewhere(t *testing.T) {
	n, disk := newNode(t), t.TempDir()
	if err := os.Remove(n.logs); err != nil {
		t.Fatal(err)
	}
	n.link(t, disk, "pods")
	n.logDir(t, "default_there_u2")
	n.link(t, "pods/default_gone_u1/c/0.log", "containers/x.log")
	n.link(t, "pods/default_there_u2/c/0.log", "containers/y.log")
	n.collect(t, time.Hour)
	n.want(t, "pods/default_there_u2", "containers/y.log")
}

func TestWithoutDirectories(t *testing.T) {
	n := newNode(t)
	n.link(t, "pods/default_gone_u1/c/0.log", "containers/x.log")
	if err := os.Remove(n.logs); err != nil {
		t.Fatal(err)
	}
	n.collect(t, time.Hour)
	// The logs' disk may not be mounted yet.
	n.want(t, "containers/x.log")

	m := newNode(t)
	if err := os.Remove(m.links); err != nil {
		t.Fatal(err)
	}
	m.logDir(t, "default_there_u1")
	m.collect(t, time.Hour)
	m.want(t, "pods/default_there_u1")
}

// The error for a logs directory that isn't a directory has its path.
func TestUnreadableLogs(t *testing.T) {
	n := newNode(t)
	file := filepath.Join(n.root, "file")
	write(t, file)
	c := New(Config{Runtime: &removals{}, LogsDir: file})
	if err := c.Collect(t.Context(), nil, none, true); !errors.As(err, new(*fs.PathError)) {
		t.Errorf("error %v; want one with the path", err)
	}
}

// A round whose context ends removes no more links.
func TestContextEnds(t *testing.T) {
	n := newNode(t)
	n.link(t, "pods/default_gone_u2/c/0.log", "containers/x.log")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := New(Config{Runtime: &removals{}, LogsDir: n.logs, Clock: clocktesting.NewFakePassiveClock(time.Now().Add(time.Hour))})
	if err := c.Collect(ctx, nil, none, true); err != nil {
		t.Error(err)
	}
	n.want(t, "containers/x.log")
}
