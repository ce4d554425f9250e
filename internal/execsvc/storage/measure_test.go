package storage

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

// filled is a place with a pod that uses of each kind, and that use.
func filled(t *testing.T) (*place, *v1.Pod, Usage) {
	t.Helper()
	p := newPlace(t)
	pod := withDir(withDir(podOf("a"), "x", "1Gi"), "y", "")
	memory := withDir(podOf(""), "memory", "1Gi").Spec.Volumes[0]
	memory.EmptyDir.Medium = v1.StorageMediumMemory
	pod.Spec.Volumes = append(pod.Spec.Volumes, memory)
	for _, name := range []string{"x", "y", "memory"} {
		write(t, mi, p.dir(pod, name), "file")
	}
	logs := criconfig.LogDir(p.logsDir(), "default", "web", "a")
	write(t, mi, logs, "main/0.log")
	write(t, mi, logs, "main/1.log")
	write(t, mi, criconfig.LogDir(p.logsDir(), "default", "web", "b"), "main/0.log")
	p.layer("a", "main", 1, 300)
	p.layer("a", "main", 2, 200)
	p.layer("a", "main", 0, 900)
	p.layer("a", "init", 0, 50)
	p.layer("b", "main", 7, 4000)
	return p, pod, Usage{
		Volumes: map[string]int64{"x": taken(t, p.dir(pod, "x")), "y": taken(t, p.dir(pod, "y"))},
		Logs:    map[string]int64{"main": taken(t, filepath.Join(logs, "main"))},
		Layers:  map[string]int64{"main": 200, "init": 50},
	}
}

func TestMeasure(t *testing.T) {
	p, pod, want := filled(t)
	got, err := New(p.config()).Measure(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	if sum := want.Volumes["x"] + want.Volumes["y"] + want.Logs["main"] + 250; got.Total() != sum {
		t.Errorf("it is %d in all; want %d", got.Total(), sum)
	}
	if of := got.Container("main"); of != want.Logs["main"]+200 {
		t.Errorf("the container's is %d", of)
	}
}

// A pod of which nothing is there yet uses nothing.
func TestMeasureNothing(t *testing.T) {
	got, err := New(newPlace(t).config()).Measure(t.Context(), withDir(podOf("a"), "x", "1Mi"))
	if err != nil || got.Total() != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// What can't be found out keeps nothing else from being known.
func TestMeasureInPart(t *testing.T) {
	p, pod, want := filled(t)
	down := errors.New("the runtime is down")
	p.setHold(func(context.Context) error { return down })
	pod.Spec.Volumes[0].Name = "x/file"
	got, err := New(p.config()).Measure(t.Context(), pod)
	if !errors.Is(err, down) || !strings.Contains(err.Error(), `volume "x/file": `) {
		t.Errorf("error %v; want one of the volume and one of the runtime", err)
	}
	want.Volumes["x/file"], want.Layers = 0, nil
	delete(want.Volumes, "x")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

// Where only a volume has a limit, nothing else is looked at.
func TestMeasureForVolumes(t *testing.T) {
	p, pod, want := filled(t)
	p.takeLooked()
	got, err := New(p.config()).measure(t.Context(), pod, limitsOf(pod))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Usage{Volumes: map[string]int64{"x": want.Volumes["x"]}}, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	if n := p.takeLooked(); n != 1 {
		t.Errorf("%d things were looked at; want one", n)
	}
}
