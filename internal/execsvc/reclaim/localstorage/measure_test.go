package localstorage

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/reclaim/diskusage"
)

// filled returns a place with a pod that has files of each kind and writable layers.
func filled(t *testing.T) (*place, *v1.Pod, map[string]diskusage.Figure) {
	t.Helper()
	p := newPlace(t)
	pod := withDir(withDir(podOf("a"), "x", "1Gi"), "y", "")
	for _, name := range []string{"x", "y"} {
		write(t, mi, p.dir(pod, name), "file")
	}
	write(t, mi, podmeta.LogDir(p.logsDir(), "default", "web", "a"), "main/0.log")
	write(t, mi, p.root, "pods/a/containers/main/00000000")
	write(t, mi, p.root, "pods/a/etc-hosts")
	p.layer("a", "main", 1, 300)
	p.layer("a", "main", 2, 200)
	p.layer("a", "main", 0, 900)
	p.layer("a", "init", 0, 50)
	p.layer("b", "main", 7, 4000)
	return p, pod, map[string]diskusage.Figure{"main": {Bytes: 200}, "init": {Bytes: 50}}
}

func TestMeasure(t *testing.T) {
	p, pod, layers := filled(t)
	got := New(p.config()).Measure(t.Context(), []*v1.Pod{pod}, 0)["a"]
	if err := got.Err(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(layers, got.Layers); diff != "" {
		t.Errorf("layers (-want +got):\n%s", diff)
	}
	main := taken(t, filepath.Join(podmeta.LogDir(p.logsDir(), "default", "web", "a"), "main"), filepath.Join(p.root, "pods/a/containers/main")) + 200
	if of := got.Container("main").Bytes; of != main {
		t.Errorf("the container has %d; want %d", of, main)
	}
	if sum := taken(t, p.dir(pod, "x"), p.dir(pod, "y"), filepath.Join(p.root, "pods/a/etc-hosts")) + main + 50; got.Total().Bytes != sum {
		t.Errorf("the total is %d; want %d", got.Total().Bytes, sum)
	}
}

// A pod without files uses nothing.
func TestMeasureNothing(t *testing.T) {
	got := New(newPlace(t).config()).Measure(t.Context(), []*v1.Pod{withDir(podOf("a"), "x", "1Mi")}, 0)["a"]
	if got.Err() != nil || got.Total() != (diskusage.Figure{}) {
		t.Errorf("%+v, %v", got, got.Err())
	}
}

// Files are known without the runtime, and layers without the files.
func TestMeasureInPart(t *testing.T) {
	p, pod, layers := filled(t)
	down := errors.New("the runtime is down")
	p.setHold(func(context.Context) error { return down })
	got := New(p.config()).Measure(t.Context(), []*v1.Pod{pod}, 0)["a"]
	if !errors.Is(got.Err(), down) || got.EmptyDirs["x"].Bytes < mi {
		t.Errorf("error %v; want the runtime's; and %+v", got.Err(), got.EmptyDirs)
	}
	p.setHold(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cfg := p.config()
	cfg.Meter = askedFiles{p, diskusage.New(diskusage.Config{})} // It doesn't run, so no count ends.
	got = New(cfg).Measure(ctx, []*v1.Pod{pod}, time.Hour)["a"]
	if len(got.EmptyDirs) != 0 || got.LayersErr != nil {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(layers, got.Layers); diff != "" {
		t.Errorf("layers (-want +got):\n%s", diff)
	}
}
