package local

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/roottest"
)

func TestMain(m *testing.M) {
	foreign.Main()
	goleak.VerifyTestMain(m)
}

// bench is a Backend with a PersistentVolume.
type bench struct {
	*Backend
	t       *testing.T
	kubelet string
	pv      *v1.PersistentVolume
}

func newBench(t *testing.T) *bench {
	t.Helper()
	roottest.Need(t, "mounting")
	b := &bench{t: t, kubelet: t.TempDir(), pv: &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}}
	must(t, os.MkdirAll(kubeletdir.Plugins(b.kubelet), 0o750))
	helpers := foreign.New(foreign.Config{Limit: time.Minute})
	t.Cleanup(helpers.Close)
	b.Backend = New(helpers)
	t.Cleanup(b.Close)
	b.pv.Spec.Local = &v1.LocalVolumeSource{Path: t.TempDir()}
	return b
}

// resolved returns the calls' arguments for a pod with this fsGroup.
func (b *bench) resolved(uid types.UID, group *int64, readOnly bool) (storage.Staging, storage.Publishing) {
	b.t.Helper()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: group}
	v, err := Persistent(b.kubelet, pod, &v1.Volume{VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c", ReadOnly: readOnly},
	}}, b.pv)
	must(b.t, err)
	s := storage.Staging{Key: v.Key, Args: v.StageArgs}
	dir := filepath.Join(kubeletdir.PodsDir(b.kubelet), string(uid))
	must(b.t, os.MkdirAll(dir, 0o750))
	p := storage.Publishing{
		Staging: s, Staged: true, UID: uid, Plugin: v.Plugin, Name: v.Name, ReadOnly: v.ReadOnly, Args: v.PublishArgs,
		Dir: filepath.Join(dir, "volumes", "kubernetes.io~local-volume", "pv"),
	}
	b.t.Cleanup(func() {
		// The test's context has ended.
		if err := b.Unpublish(context.Background(), p); err != nil {
			b.t.Error(err)
		}
		if err := b.Unstage(context.Background(), s); err != nil {
			b.t.Error(err)
		}
	})
	return s, p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func group(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Sys().(*syscall.Stat_t).Gid
}

// TestDirectory: a directory is bound at the volume's directory, with the group of the first pod.
func TestDirectory(t *testing.T) {
	b := newBench(t)
	file := filepath.Join(b.pv.Spec.Local.Path, "file")
	must(t, os.WriteFile(file, []byte("data"), 0o600))
	s, first := b.resolved("u1", ptr.To[int64](4711), false)
	_, second := b.resolved("u2", ptr.To[int64](4712), false)
	_, reader := b.resolved("u3", ptr.To[int64](4713), true)
	for range 2 {
		must(t, b.Stage(t.Context(), s))
		must(t, b.Publish(t.Context(), first))
	}
	if data, err := os.ReadFile(filepath.Join(first.Dir, "file")); err != nil || string(data) != "data" {
		t.Fatalf("%q, %v", data, err)
	}
	second.KeepsGroup = true // Package storage sets it: another pod has the volume.
	must(t, b.Publish(t.Context(), second))
	must(t, b.Publish(t.Context(), reader))
	if got := group(t, file); got != 4711 {
		t.Errorf("group %d", got)
	}
	if err := os.WriteFile(filepath.Join(reader.Dir, "new"), nil, 0o600); err == nil {
		t.Error("a read-only volume can be written to")
	}
	if err := os.WriteFile(filepath.Join(second.Dir, "new"), nil, 0o600); err != nil {
		t.Error(err)
	}
	for _, p := range []storage.Publishing{first, second, reader} {
		must(t, b.Unpublish(t.Context(), p))
		must(t, b.Unpublish(t.Context(), p))
	}
	second.KeepsGroup = false
	must(t, b.Publish(t.Context(), second))
	if got := group(t, file); got != 4712 {
		t.Errorf("group %d after the other pods' end", got)
	}
	must(t, b.Unpublish(t.Context(), second))
	must(t, b.Unstage(t.Context(), s))
	if entries, err := os.ReadDir(second.Dir); err != nil || len(entries) > 0 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

// TestBlockDevice: a block device without content is formatted, and mounted once for all pods.
func TestBlockDevice(t *testing.T) {
	b := newBench(t)
	b.pv.Spec.Local.Path = loop(t)
	s, p := b.resolved("u1", nil, false)
	must(t, b.Stage(t.Context(), s))
	must(t, b.Publish(t.Context(), p))
	must(t, os.WriteFile(filepath.Join(p.Dir, "file"), []byte("data"), 0o600))
	if _, err := os.Stat(filepath.Join(b.kubelet, "plugins/kubernetes.io/local-volume/mounts/pv/file")); err != nil {
		t.Error(err)
	}
	// Its pods start if its PersistentVolume says that it is larger: package apiexpansion looks for this error.
	if err := b.Expand(t.Context(), p, ""); !errors.Is(err, storage.ErrNoExpand) || storage.OutcomeOf(err) != storage.NotSent {
		t.Errorf("it is expanded: %v", err)
	}
	must(t, b.Unpublish(t.Context(), p))
	must(t, b.Unstage(t.Context(), s))
	if _, err := os.Stat(filepath.Join(b.kubelet, "plugins/kubernetes.io/local-volume/mounts/pv")); !os.IsNotExist(err) {
		t.Errorf("the mount point: %v", err)
	}
	// It isn't formatted again.
	must(t, b.Stage(t.Context(), s))
	must(t, b.Publish(t.Context(), p))
	if data, err := os.ReadFile(filepath.Join(p.Dir, "file")); err != nil || string(data) != "data" {
		t.Errorf("%q, %v", data, err)
	}
}

// loop returns a loop device of a new file.
func loop(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "disk")
	must(t, os.WriteFile(file, nil, 0o600))
	must(t, os.Truncate(file, 64<<20))
	out, err := exec.CommandContext(t.Context(), "losetup", "--find", "--show", file).CombinedOutput()
	if err != nil {
		roottest.Able(t, &os.PathError{Op: "losetup " + strings.TrimSpace(string(out)), Path: file, Err: err})
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() { _ = exec.Command("losetup", "--detach", device).Run() })
	return device
}

// TestWrongPath: a path that can't be a volume is an error with the kubelet's words, and nothing is mounted.
func TestWrongPath(t *testing.T) {
	b := newBench(t)
	for path, want := range map[string]string{"": "local path is not set", "/a/../b": "must not contain '..'", "a": "must be absolute"} {
		pv := b.pv.DeepCopy()
		pv.Spec.Local.Path = path
		_, err := Persistent(b.kubelet, &v1.Pod{}, &v1.Volume{}, pv)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", path, err)
		}
	}
	for path, want := range map[string]string{"/dev/null": "only directory and block device are supported", "/nowhere": "no such file"} {
		b.pv.Spec.Local.Path = path
		s, p := b.resolved("u1", nil, false)
		for _, err := range []error{b.Stage(t.Context(), s), b.Publish(t.Context(), p)} {
			if err == nil || storage.OutcomeOf(err) != storage.Unrepeatable || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", path, err)
			}
		}
	}
}

// TestRelabels: the runtime labels a local volume for each pod, as with the kubelet.
func TestRelabels(t *testing.T) {
	if !newBench(t).Relabels(storage.Publishing{}) {
		t.Error("a local volume is not labelled")
	}
}

// TestStagedMountGone: a pod gets no directory of the node's disk in the place of a device that isn't mounted any more, or that was a directory.
func TestStagedMountGone(t *testing.T) {
	for name, change := range map[string]func(b *bench, link, staged string){
		"unmounted": func(_ *bench, _, staged string) { must(t, unix.Unmount(staged, 0)) },
		"another device": func(_ *bench, link, _ string) {
			must(t, os.Remove(link))
			must(t, os.Symlink(roottest.LoopDevice(t), link))
		},
	} {
		b := newBench(t)
		link := filepath.Join(t.TempDir(), "disk")
		must(t, os.Symlink(roottest.LoopDevice(t), link))
		b.pv.Spec.Local.Path = link
		s, p := b.resolved("u1", nil, false)
		must(t, b.Stage(t.Context(), s))
		var args stageArgs
		must(t, decode(s.Args, &args))
		change(b, link, stagedAt(&args, s.Key))
		err := b.Publish(t.Context(), p)
		if storage.OutcomeOf(err) != storage.NotSent || !strings.Contains(err.Error(), link) {
			t.Errorf("%s: %v (outcome %d)", name, err, storage.OutcomeOf(err))
		}
		if err := b.Unpublish(t.Context(), p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		must(t, b.Unstage(t.Context(), s))
	}
}

func stagedAt(args *stageArgs, k record.Key) string {
	base, at := args.staged(k)
	return filepath.Join(base, at)
}
