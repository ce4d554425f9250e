package directory

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/roottest"
)

// backend returns a Backend until the test's end.
func backend(t *testing.T) *Backend {
	t.Helper()
	helpers := foreign.New(foreign.Config{Limit: time.Minute})
	t.Cleanup(helpers.Close)
	b := NewBackend(helpers)
	t.Cleanup(b.Close)
	return b
}

// published returns the publication of a claim in a new directory of pods. It is unmounted at the test's end.
func (b *Backend) published(t *testing.T, d Dirs, c Claim, group *int64) storage.Publishing {
	t.Helper()
	roottest.Need(t, "mounting")
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: c.Namespace}}
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: group}
	v, err := d.Volume(pod, c)
	if err != nil {
		t.Fatal(err)
	}
	pods := filepath.Join(t.TempDir(), "the pods\u00a0")
	if err := os.MkdirAll(filepath.Join(pods, "uid"), 0o750); err != nil {
		t.Fatal(err)
	}
	p := storage.Publishing{
		Staging: storage.Staging{Key: v.Key}, UID: "uid", Plugin: v.Plugin, Name: v.Name, Args: v.PublishArgs,
		Dir: filepath.Join(pods, "uid", "volumes", "kubernetes.io~local-volume", v.Name),
	}
	t.Cleanup(func() {
		// The test's context has ended.
		if err := b.Unpublish(context.Background(), p); err != nil {
			t.Error(err)
		}
	})
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestPublish: the pod has the claim's directory, once, however often it is published, with its fsGroup; after
// Unpublish, also repeated, the data is in the directory and not in the pod's.
func TestPublish(t *testing.T) {
	b := backend(t)
	d, c := New(filepath.Join(t.TempDir(), "claims")), Claim{"default", "data"}
	must(t, d.Create(c))
	must(t, d.Create(c))
	p := b.published(t, d, c, new(int64(4242)))
	must(t, b.Publish(t.Context(), p))
	must(t, b.Publish(t.Context(), p))
	inside := filepath.Join(p.Dir, storage.MountDir, "canary")
	must(t, os.WriteFile(inside, []byte("kept"), 0o600))
	if stats, err := b.Stats(t.Context(), p); err != nil || stats.Capacity == 0 {
		t.Errorf("its statistics are %v, %v", stats, err)
	}
	info, err := os.Stat(d.Path(c))
	must(t, err)
	if mode := info.Mode(); mode&os.ModeSetgid == 0 || mode.Perm() != 0o775 {
		t.Errorf("its mode is %v; want the group's bits", mode)
	}
	for range 2 {
		must(t, b.Unpublish(t.Context(), p))
	}
	if _, err := os.Lstat(inside); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still mounted: %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(d.Path(c), "canary")); string(data) != "kept" {
		t.Errorf("the data is %q, %v", data, err)
	}
}

// TestGroupOfSharedDirectory: a second pod doesn't take the files of the first one by its fsGroup, if package storage says so.
func TestGroupOfSharedDirectory(t *testing.T) {
	b := backend(t)
	d, c, other := New(filepath.Join(t.TempDir(), "claims")), Claim{"default", "data"}, Claim{"other", "data"}
	group := func(c Claim) uint32 {
		var st unix.Stat_t
		must(t, unix.Stat(d.Path(c), &st))
		return st.Gid
	}
	must(t, d.Create(c))
	must(t, d.Create(other))
	for _, step := range []struct {
		claim Claim
		group int64
		keeps bool
		want  uint32
	}{{c, 4242, false, 4242}, {other, 4243, false, 4243}, {c, 4244, true, 4242}} {
		p := b.published(t, d, step.claim, &step.group)
		p.KeepsGroup = step.keeps
		must(t, b.Publish(t.Context(), p))
		if got := group(step.claim); got != step.want {
			t.Errorf("after a pod with group %d, %s has group %d; want %d", step.group, step.claim, got, step.want)
		}
	}
}

// TestModeOfDirectory: a new directory has podman's mode, in spite of the umask.
func TestModeOfDirectory(t *testing.T) {
	d, c := New(t.TempDir()), Claim{"default", "data"}
	must(t, d.Create(c))
	if info, err := os.Stat(d.Path(c)); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("its mode is %v, %v", info, err)
	}
}

// TestMissingDirectory: a directory that existed isn't created again, so that no pod starts without its data.
func TestMissingDirectory(t *testing.T) {
	b := backend(t)
	d, c := New(t.TempDir()), Claim{"default", "data"}
	p := b.published(t, d, c, nil)
	err := b.Publish(t.Context(), p)
	if !errors.Is(err, ErrMissing) || storage.OutcomeOf(err) != storage.NotSent || !strings.Contains(err.Error(), d.Path(c)) {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(d.Path(c)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is created: %v", err)
	}
}

// TestLinks: no link is followed: to a claim's directory, to that of its namespace, and to the pod's mount point.
func TestLinks(t *testing.T) {
	elsewhere := t.TempDir()
	for _, at := range []string{"default", "default/data"} {
		d, c := New(t.TempDir()), Claim{"default", "data"}
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(d.root, at)), 0o755))
		must(t, os.MkdirAll(filepath.Join(elsewhere, "data"), 0o755))
		must(t, os.Symlink(elsewhere, filepath.Join(d.root, at)))
		if err := d.Create(c); err == nil {
			t.Errorf("with a link at %s it is created", at)
		}
		if dir, err := d.Open(c); err == nil {
			t.Errorf("with a link at %s %s is opened", at, dir.Name())
		}
	}
	b, d, c := backend(t), New(t.TempDir()), Claim{"default", "data"}
	must(t, d.Create(c))
	p := b.published(t, d, c, nil)
	must(t, os.MkdirAll(p.Dir, 0o750))
	must(t, os.Symlink(elsewhere, filepath.Join(p.Dir, storage.MountDir)))
	if err := b.Publish(t.Context(), p); err == nil {
		t.Error("it is mounted through a link")
	}
}

// TestNames: only names of namespaces and claims become a part of a path.
func TestNames(t *testing.T) {
	d := New(t.TempDir())
	for _, c := range []Claim{{"..", "a"}, {"a", ".."}, {"a", "b/c"}, {"", "a"}, {"a", ""}, {"a/b", "c"}, {"a", "."}, {"A", "b"}, {".", "b"}} {
		if err := d.Create(c); err == nil {
			t.Errorf("%q is created", c)
		}
		if _, err := d.Open(c); err == nil || errors.Is(err, ErrMissing) {
			t.Errorf("%q is opened: %v", c, err)
		}
	}
}

// TestRelabels: the runtime labels a directory for each pod, as the kubelet's plugin kubernetes.io/local-volume has it do.
func TestRelabels(t *testing.T) {
	if !backend(t).Relabels(storage.Publishing{}) {
		t.Error("a directory is not labelled; without labels no container can use a new one")
	}
}
