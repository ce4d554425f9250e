package gc

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
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// node is a directory as /var/log is.
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

// link makes a link; target is beneath the root, or absolute.
func (n node) link(t *testing.T, target, path string) {
	t.Helper()
	if !filepath.IsAbs(target) {
		target = filepath.Join(n.root, target)
	}
	if err := os.Symlink(target, filepath.Join(n.root, path)); err != nil {
		t.Fatal(err)
	}
}

// want fails the test unless these are all that is in the two directories.
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

// collect is a round after so much time.
func (n node) collect(t *testing.T, after time.Duration, found []*observed.Pod, known func(types.UID) bool, settled bool) {
	t.Helper()
	c := New(Config{Runtime: &removals{}, LogsDir: n.logs + "/", MaxDead: -1, Clock: clocktesting.NewFakePassiveClock(time.Now().Add(after))})
	if err := c.Collect(t.Context(), found, known, settled); err != nil {
		t.Fatal(err)
	}
}

func TestPodOf(t *testing.T) {
	for dir, want := range map[string]types.UID{
		"default_web-node1_0f1e":             "0f1e",
		"kube-system_a.b_8f0c-1d_x":          "8f0c-1d_x",
		"default_web_":                       "",
		"default_web_..":                     "",
		"default_web":                        "",
		"default__0f1e":                      "",
		"_web_0f1e":                          "",
		"My_own_files":                       "",
		"lost+found":                         "",
		"default_web-node1_0f1e\x00":         "",
		"default.with.dots_web-node1_0f1e":   "",
		"default_web-node1_a" + "/../../etc": "",
	} {
		got, ok := podOf(dir)
		if ok != (want != "") || ok && got != want {
			t.Errorf("the pod of %q is %q, %v; want %q", dir, got, ok, want)
		}
	}
}

func TestOrphanDirectories(t *testing.T) {
	n := newNode(t)
	outside := t.TempDir()
	write(t, filepath.Join(outside, "precious"))
	dirs := []string{"default_known_u1", "default_found_u2", "default_gone_u3", "lost+found"}
	for _, dir := range dirs {
		n.logDir(t, dir)
	}
	// Neither what looks like a directory nor what stands in one leads out.
	n.link(t, outside, "pods/default_link_u4")
	n.link(t, outside, "pods/default_gone_u3/out")
	n.link(t, filepath.Join(outside, "precious"), "pods/default_gone_u3/c/1.log")
	write(t, filepath.Join(n.logs, "default_file_u5"))
	found := []*observed.Pod{pod("u2")}
	known := func(uid types.UID) bool { return uid == "u1" }

	rest := []string{"pods/default_known_u1", "pods/default_found_u2", "pods/lost+found", "pods/default_link_u4", "pods/default_file_u5"}
	n.collect(t, 0, found, known, false)
	n.want(t, append([]string{"pods/default_gone_u3"}, rest...)...)
	n.collect(t, 0, found, known, true)
	n.want(t, rest...)
	if _, err := os.Stat(filepath.Join(outside, "precious")); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
}

func TestLinks(t *testing.T) {
	running, dead := inState(observed.Running, "c", 1), exited("c", 0, 1)
	runs := pod("u1", running, dead)
	runs.Name = "runs"
	linkOf := func(c observed.Container) string {
		return "containers/" + criconfig.LogLinkName("default", "runs", c.Name, c.ID)
	}
	for name, tc := range map[string]struct {
		link, target string
		stays        bool
	}{
		"its log is there":                           {linkOf(dead), "pods/default_runs_u1/c/0.log", true},
		"its log is gone":                            {linkOf(dead), "pods/default_runs_u1/c/7.log", false},
		"its log is being rotated":                   {linkOf(running), "pods/default_runs_u1/c/1.log", true},
		"its pod is gone":                            {"containers/x.log", "pods/default_gone_u9/c/0.log", false},
		"its pod is known and wasn't found":          {"containers/x.log", "pods/default_known_u2/c/0.log", true},
		"a pod's directory":                          {"containers/x.log", "pods/default_gone_u9", true},
		"not to a pod's log":                         {"containers/x.log", "pods/other/c/0.log", true},
		"somebody else's":                            {"containers/x.log", "elsewhere/0.log", true},
		"to a directory that only begins as ours":    {"containers/x.log", "pods2/default_gone_u9/c/0.log", true},
		"out of the logs again":                      {"containers/x.log", "pods/default_gone_u9/../../elsewhere", true},
		"by way of a link within the logs":           {"containers/x.log", "pods/default_way_u8/in/9.log", false},
		"by way of a link out of the logs":           {"containers/x.log", "pods/default_way_u8/out/9.log", true},
		"to a link out of the logs that leads on":    {"containers/x.log", "pods/default_way_u8/out", true},
		"to a link within the logs that is dangling": {"containers/x.log", "pods/default_way_u8/dangling", false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.logDir(t, "default_runs_u1")
			n.logDir(t, "default_way_u8")
			for link, target := range map[string]string{"in": "c", "out": n.root, "dangling": "nothing"} {
				if err := os.Symlink(target, filepath.Join(n.logs, "default_way_u8", link)); err != nil {
					t.Fatal(err)
				}
			}
			n.link(t, tc.target, tc.link)
			if tc.target == "pods/default_gone_u9/../../elsewhere" {
				// Join has tidied it up.
				path := filepath.Join(n.root, tc.link)
				if err := errors.Join(os.Remove(path), os.Symlink(n.root+"/"+tc.target, path)); err != nil {
					t.Fatal(err)
				}
			}
			n.collect(t, time.Hour, []*observed.Pod{runs}, func(uid types.UID) bool { return uid == "u2" }, false)
			left := []string{"pods/default_runs_u1", "pods/default_way_u8"}
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
	n.collect(t, time.Hour, nil, none, true)
	n.want(t, "containers/b.log")
}

// The link of a container that is about to start is there before its log.
func TestYoungLinkStays(t *testing.T) {
	n := newNode(t)
	n.link(t, "pods/default_new_u1/c/0.log", "containers/x.log")
	// The clock may have been set back, too.
	for _, after := range []time.Duration{-time.Hour, 0, minLinkAge - 10*time.Second} {
		n.collect(t, after, nil, none, true)
		n.want(t, "containers/x.log")
	}
	n.collect(t, minLinkAge, nil, none, true)
	n.want(t)
}

// Links go in the round in which the logs go that they led to.
func TestLinksGoWithTheirLogs(t *testing.T) {
	n := newNode(t)
	n.logDir(t, "default_gone_u1")
	n.link(t, "pods/default_gone_u1/c/0.log", "containers/x.log")
	write(t, filepath.Join(n.links, "file.log"))
	n.collect(t, time.Hour, nil, none, true)
	n.want(t, "containers/file.log")
}

// The directory of logs may be a link itself, to a larger disk.
func TestLogsElsewhere(t *testing.T) {
	n, disk := newNode(t), t.TempDir()
	if err := os.Remove(n.logs); err != nil {
		t.Fatal(err)
	}
	n.link(t, disk, "pods")
	n.logDir(t, "default_gone_u1")
	n.logDir(t, "default_known_u2")
	n.link(t, "pods/default_gone_u1/c/0.log", "containers/x.log")
	n.link(t, "pods/default_known_u2/c/0.log", "containers/y.log")
	n.collect(t, time.Hour, nil, func(uid types.UID) bool { return uid == "u2" }, true)
	n.want(t, "pods/default_known_u2", "containers/y.log")
}

func TestWithoutDirectories(t *testing.T) {
	n := newNode(t)
	n.link(t, "pods/default_gone_u1/c/0.log", "containers/x.log")
	if err := os.Remove(n.logs); err != nil {
		t.Fatal(err)
	}
	n.collect(t, time.Hour, nil, none, true)
	// The logs' disk may not be mounted yet.
	n.want(t, "containers/x.log")

	m := newNode(t)
	if err := os.Remove(m.links); err != nil {
		t.Fatal(err)
	}
	m.logDir(t, "default_gone_u1")
	m.collect(t, time.Hour, nil, none, true)
	m.want(t)
}

// A directory of logs that isn't one is told, by its path.
func TestUnreadableLogs(t *testing.T) {
	n := newNode(t)
	file := filepath.Join(n.root, "file")
	write(t, file)
	c := New(Config{Runtime: &removals{}, LogsDir: file})
	if err := c.Collect(t.Context(), nil, none, true); !errors.As(err, new(*fs.PathError)) {
		t.Errorf("error %v; want one with the path", err)
	}
}

// A round that is broken off removes no more logs.
func TestBrokenOff(t *testing.T) {
	n := newNode(t)
	n.logDir(t, "default_gone_u1")
	n.link(t, "pods/default_gone_u2/c/0.log", "containers/x.log")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := New(Config{Runtime: &removals{}, LogsDir: n.logs, Clock: clocktesting.NewFakePassiveClock(time.Now().Add(time.Hour))})
	if err := c.Collect(ctx, nil, none, true); err != nil {
		t.Error(err)
	}
	n.want(t, "pods/default_gone_u1", "containers/x.log")
}
