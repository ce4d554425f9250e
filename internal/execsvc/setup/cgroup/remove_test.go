package cgroup

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/opencontainers/cgroups"
	v1 "k8s.io/api/core/v1"
)

func TestRemove(t *testing.T) {
	m := newManager(t, Config{Root: newRoot(t)})
	doomed := podOf("u", container(list("cpu", "1"), nil))
	// Pods with the same tier or a similar name.
	neighbours := []*v1.Pod{
		podOf("u2", container(list("cpu", "1"), nil)),
		podOf("v", container(nil, nil)),
		podOf("w", same("cpu", "1", "memory", "1Gi")),
	}
	var spared []*process
	for _, p := range append(neighbours, doomed) {
		if err := m.Ensure(p); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range neighbours {
		s := sleeper(t)
		s.join(t, child(t, groupOf(t, m, p), "memory", "c"))
		spared = append(spared, s)
	}
	g := groupOf(t, m, doomed)
	below, deep := sleeper(t), sleeper(t)
	// Only one controller has it.
	below.join(t, child(t, g, "pids", "c"))
	deep.join(t, child(t, g, "memory", "c/d/e"))
	doomedProcesses := []*process{below, deep}
	if !g.v2 {
		frozen := sleeper(t)
		dir := child(t, g, "freezer", "c/d")
		frozen.join(t, dir)
		if err := cgroups.WriteFile(dir, "freezer.state", string(cgroups.Frozen)); err != nil {
			t.Fatal(err)
		}
		doomedProcesses = append(doomedProcesses, frozen)
		// A directory that only the runtime makes.
		child(t, g, devices, "c")
	}
	for range 2 {
		if err := m.Remove(inTime(t), doomed.UID); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range doomedProcesses {
		p.awaitEnd(t)
	}
	if dirs := g.dirs(); len(dirs) > 0 {
		t.Errorf("still there: %v", dirs)
	}
	for i, p := range neighbours {
		if !spared[i].lives() || !groupOf(t, m, p).exists() {
			t.Errorf("pod %s was touched", p.UID)
		}
	}
	for _, g := range []group{m.tiers.kubepods.group, m.tiers.burstable.group, m.tiers.bestEffort.group} {
		if !g.exists() {
			t.Errorf("a tier was touched: %v", g.GetPaths())
		}
	}
	if _, ok := m.known(m.layout.pod(doomed.UID, v1.PodQOSBurstable)); ok {
		t.Error("its resources are still cached")
	}
	if err := m.Ensure(doomed); err != nil || !g.exists() {
		t.Errorf("created again: %v", err)
	}
}

// TestRemoveAfterRestart: a removal needs neither the cache nor the QoS class.
func TestRemoveAfterRestart(t *testing.T) {
	cfg := Config{Root: newRoot(t)}
	for _, c := range []v1.Container{container(nil, nil), container(list("cpu", "1"), nil), same("cpu", "1", "memory", "1Mi")} {
		p := podOf("u", c)
		m := newManager(t, cfg)
		if err := m.Ensure(p); err != nil {
			t.Fatal(err)
		}
		m = newManager(t, cfg)
		if err := m.Remove(inTime(t), p.UID); err != nil {
			t.Fatal(err)
		}
		if dirs := groupOf(t, m, p).dirs(); len(dirs) > 0 {
			t.Errorf("still there: %v", dirs)
		}
	}
}

// TestRemovePartOfIt: a removal completes an interrupted one, with directories left in some hierarchies.
func TestRemovePartOfIt(t *testing.T) {
	m := newManager(t, Config{Root: newRoot(t)})
	p := podOf("u", container(nil, nil))
	if err := m.Ensure(p); err != nil {
		t.Fatal(err)
	}
	g := groupOf(t, m, p)
	if err := os.Remove(g.Path("memory")); err != nil {
		t.Fatal(err)
	}
	if err := m.Remove(inTime(t), p.UID); err != nil {
		t.Fatal(err)
	}
	if dirs := g.dirs(); len(dirs) > 0 {
		t.Errorf("still there: %v", dirs)
	}
}

// TestRemoveForks: processes that fork and exit faster than they can be listed are killed.
func TestRemoveForks(t *testing.T) {
	m := newManager(t, Config{Root: newRoot(t), PodPidsLimit: 50})
	p := podOf("u", container(nil, nil))
	if err := m.Ensure(p); err != nil {
		t.Fatal(err)
	}
	g := groupOf(t, m, p)
	chain := start(t, "", "sh", "-c", "read x; f() { f & }; f; echo forked")
	chain.join(t, child(t, g, "pids", "c"))
	if _, err := chain.in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if !chain.lines.Scan() {
		t.Fatal(chain.lines.Err())
	}
	if err := m.Remove(inTime(t), p.UID); err != nil {
		t.Fatal(err)
	}
	if dirs := g.dirs(); len(dirs) > 0 {
		t.Errorf("still there: %v", dirs)
	}
}

// TestRemoveInTime: a removal returns when ctx ends, and can be retried.
func TestRemoveInTime(t *testing.T) {
	m := newManager(t, Config{Root: newRoot(t)})
	p := podOf("u", container(nil, nil))
	if err := m.Ensure(p); err != nil {
		t.Fatal(err)
	}
	g := groupOf(t, m, p)
	s := sleeper(t)
	s.join(t, g.Path("memory"))
	ctx, cancel := context.WithCancel(inTime(t))
	cancel()
	if err := m.Remove(ctx, p.UID); !errors.Is(err, ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	if got := read(t, g.Path("pids"), "pids.max"); got != "0" {
		t.Errorf("pids.max is %s", got)
	}
	s.awaitEnd(t)
	if err := m.Remove(inTime(t), p.UID); err != nil {
		t.Error(err)
	}
	if dirs := g.dirs(); len(dirs) > 0 {
		t.Errorf("still there: %v", dirs)
	}
}
