package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestEnsure(t *testing.T) {
	root := newRoot(t)
	cfg := Config{Root: root, PodPidsLimit: 99}
	m := newManager(t, cfg)
	for _, tc := range []struct {
		pod    *v1.Pod
		parent string
		want   cgroups.Resources
	}{
		{podOf("g", same("cpu", "500m", "memory", "64Mi")), root + "/kubepods/podg",
			cgroups.Resources{Memory: 64 * mi, CpuQuota: 50_000}},
		{podOf("b", container(list("cpu", "1"), nil)), root + "/kubepods/burstable/podb",
			cgroups.Resources{Memory: unlimited, CpuQuota: unlimited}},
		{podOf("e", container(nil, nil)), root + "/kubepods/besteffort/pode",
			cgroups.Resources{Memory: unlimited, CpuQuota: unlimited}},
	} {
		if got := m.Parent(tc.pod); got != tc.parent {
			t.Errorf("parent %s, want %s", got, tc.parent)
		}
		if err := m.Ensure(tc.pod); err != nil {
			t.Fatal(err)
		}
		g := groupOf(t, m, tc.pod)
		if !g.exists() {
			t.Errorf("%s: it is incomplete", tc.parent)
		}
		got, err := g.limits()
		if err != nil || got.Memory != tc.want.Memory || got.CpuQuota != tc.want.CpuQuota {
			t.Errorf("%s: %d bytes, %d µs, %v", tc.parent, got.Memory, got.CpuQuota, err)
		}
		if got := read(t, g.Path("pids"), "pids.max"); got != "99" {
			t.Errorf("%s: %s processes", tc.parent, got)
		}
		if usage, err := m.Usage(tc.pod); err != nil || usage < 0 || usage > 32*mi {
			t.Errorf("%s: %d bytes in use, %v", tc.parent, usage, err)
		}
	}
	if _, err := m.Usage(podOf("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a pod without a cgroup: %v", err)
	}
}

// TestEnsureAgain: without a change nothing is written, and a missing cgroup is created again.
func TestEnsureAgain(t *testing.T) {
	cfg := Config{Root: newRoot(t)}
	m := newManager(t, cfg)
	p := podOf("u", same("cpu", "1", "memory", "64Mi"))
	if err := m.Ensure(p); err != nil {
		t.Fatal(err)
	}
	g := groupOf(t, m, p)
	given := shares(t, g)
	setShares(t, g, "7")
	for _, call := range []func(*v1.Pod) error{m.Ensure, m.SetPod} {
		if err := call(p); err != nil {
			t.Fatal(err)
		}
		if got := shares(t, g); got != "7" {
			t.Error("something was written without a change")
		}
	}
	// After a restart the last resources are unknown.
	m = newManager(t, cfg)
	if err := m.Ensure(p); err != nil {
		t.Fatal(err)
	}
	if got := shares(t, g); got != given {
		t.Errorf("after a restart: %s shares, want %s", got, given)
	}
	// Another process removed a part of it.
	if err := os.Remove(g.Path("memory")); err != nil {
		t.Fatal(err)
	}
	if err := m.Ensure(p); err != nil {
		t.Fatal(err)
	}
	if limits, err := g.limits(); err != nil || limits.Memory != 64*mi || !g.exists() {
		t.Errorf("it wasn't created again: %d bytes, %v", limits.Memory, err)
	}
}

// TestResize: a pod's cgroup grows before its containers do, and shrinks after them, also across a restart.
func TestResize(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), func(t *testing.T) {
			cfg := Config{Root: newRoot(t)}
			m := newManager(t, cfg)
			pod := func(cpu, memory string) *v1.Pod { return podOf("u", same("cpu", cpu, "memory", memory)) }
			check := func(memory, quota int64) {
				t.Helper()
				got, err := groupOf(t, m, pod("1", "1Mi")).limits()
				if err != nil || got.Memory != memory || got.CpuQuota != quota {
					t.Errorf("%d bytes, %d µs, %v, want %d bytes and %d µs", got.Memory, got.CpuQuota, err, memory, quota)
				}
				if restart {
					m = newManager(t, cfg)
				}
			}
			step := func(call func(*v1.Pod) error, cpu, memory string) {
				t.Helper()
				if err := call(pod(cpu, memory)); err != nil {
					t.Error(err)
				}
			}
			step(m.Ensure, "1", "64Mi")
			check(64*mi, 100_000)
			step(m.Ensure, "2", "32Mi")
			check(64*mi, 200_000)
			// Repeating it must not mistake it for the wanted limit.
			step(m.Ensure, "2", "32Mi")
			check(64*mi, 200_000)
			step(m.SetPod, "2", "32Mi")
			check(32*mi, 200_000)

			// A container has all of the pod's cpu. v1 rejects less for the pod; v2 allows it.
			g := groupOf(t, m, pod("1", "1Mi"))
			dir := child(t, g, "cpu", "container")
			quota := func(value string) {
				t.Helper()
				if g.v2 {
					return
				}
				if err := cgroups.WriteFile(dir, "cpu.cfs_quota_us", value); err != nil {
					t.Fatal(err)
				}
			}
			quota("200000")
			step(m.Ensure, "500m", "32Mi")
			check(32*mi, 200_000)
			quota("50000")
			step(m.SetPod, "500m", "32Mi")
			check(32*mi, 50_000)
		})
	}
}

// TestShrinkBelowUsage: a limit below the usage is not set, and the other limits are.
func TestShrinkBelowUsage(t *testing.T) {
	m := newManager(t, Config{Root: newRoot(t)})
	if err := m.Ensure(podOf("u", same("cpu", "1", "memory", "128Mi"))); err != nil {
		t.Fatal(err)
	}
	small := podOf("u", same("cpu", "500m", "memory", "8Mi"))
	g := groupOf(t, m, small)
	eater := startEater(t, g.Path("memory"), 32*mi)
	if usage, err := m.Usage(small); err != nil || usage < 32*mi {
		t.Errorf("%d bytes in use, %v", usage, err)
	}
	for range 2 {
		if err := m.SetPod(small); !errors.Is(err, ErrBusy) {
			t.Errorf("%v, want ErrBusy", err)
		}
	}
	if !eater.lives() {
		t.Error("the pod was killed by the limit")
	}
	if got, err := g.limits(); err != nil || got.Memory != 128*mi || got.CpuQuota != 50_000 {
		t.Errorf("%d bytes, %d µs, %v", got.Memory, got.CpuQuota, err)
	}
	// A sync meanwhile succeeds.
	if err := m.Ensure(small); err != nil {
		t.Error(err)
	}
	eater.kill(t)
	if err := m.SetPod(small); err != nil {
		t.Error(err)
	}
	if got, err := g.limits(); err != nil || got.Memory != 8*mi {
		t.Errorf("%d bytes, %v", got.Memory, err)
	}
}

// TestManyAtOnce: calls for different pods and Balance are safe concurrently.
func TestManyAtOnce(t *testing.T) {
	m := newManager(t, Config{Root: newRoot(t)})
	ctx := inTime(t)
	var all errgroup.Group
	for i := range 16 {
		p := podOf(types.UID(fmt.Sprintf("u%d", i)), container(list("cpu", "100m"), nil))
		all.Go(func() error {
			return errors.Join(m.Ensure(p), m.Balance([]*v1.Pod{p}), m.SetPod(p), m.Remove(ctx, p.UID))
		})
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
}
