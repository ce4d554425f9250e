package cgroup

import (
	"errors"
	"slices"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestOff(t *testing.T) {
	m, err := New(Config{Root: "/podstream-test-off"})
	if err != nil {
		t.Fatal(err)
	}
	p := podOf("u")
	if got := m.Parent(p); got != "" {
		t.Errorf("parent %q", got)
	}
	if err := errors.Join(m.Ensure(p), m.SetPod(p), m.Balance([]*v1.Pod{p}), m.Remove(inTime(t), "u")); err != nil {
		t.Error(err)
	}
	if _, err := m.Usage(p); err == nil {
		t.Error("Usage of a pod without a cgroup succeeds")
	}
}

func TestUnknownDriver(t *testing.T) {
	if _, err := New(Config{PerQoS: true, Driver: "docker"}); err == nil {
		t.Error("an unknown driver is accepted")
	}
}

func TestBadUID(t *testing.T) {
	m := newManager(t, Config{Root: newRoot(t)})
	for _, uid := range []types.UID{"", "..", "../burstable"} {
		p := podOf(uid)
		if m.Ensure(p) == nil || m.SetPod(p) == nil {
			t.Errorf("UID %q is accepted", uid)
		}
		if err := m.Remove(inTime(t), uid); err != nil {
			t.Errorf("the cgroup of UID %q can't be removed: %v; want nothing to remove", uid, err)
		}
	}
}

func TestTiers(t *testing.T) {
	root := newRoot(t)
	limited := 0
	cfg := Config{Root: root, Allocatable: list("cpu", "2", "memory", "1Gi", "pid", "500"), Limited: func(err error) {
		limited++
		if err != nil {
			t.Errorf("the limit fails: %v", err)
		}
	}}
	m := newManager(t, cfg)
	kubepods, burstable, bestEffort := m.tiers.kubepods.group, m.tiers.burstable.group, m.tiers.bestEffort.group
	sharesOf := func(milli int64) string {
		r := skipping()
		m.settings.setShares(&r, milli)
		return strconv.FormatUint(r.CpuShares+r.CpuWeight, 10)
	}
	for _, g := range []group{kubepods, burstable, bestEffort} {
		if !g.exists() {
			t.Errorf("%v is missing", g.GetPaths())
		}
	}
	limits, err := kubepods.limits()
	if err != nil || limits.Memory != 1024*mi {
		t.Errorf("kubepods: %d bytes, %v", limits.Memory, err)
	}
	if pids, cpu := read(t, kubepods.Path("pids"), "pids.max"), shares(t, kubepods); pids != "500" || cpu != sharesOf(2000) {
		t.Errorf("kubepods: %s processes, %s shares", pids, cpu)
	}
	pods := []*v1.Pod{
		podOf("a", container(list("cpu", "1"), nil)),
		podOf("b", container(list("cpu", "500m"), nil)),
		podOf("c", container(nil, nil)),
	}
	if err := m.Balance(pods); err != nil {
		t.Fatal(err)
	}
	if b, e := shares(t, burstable), shares(t, bestEffort); b != sharesOf(1500) || e != sharesOf(0) {
		t.Errorf("burstable %s, best effort %s", b, e)
	}

	if limited != 1 {
		t.Errorf("the limit is reported %d times; want once", limited)
	}

	// A second agent starts on the same root: tiers stay unchanged until it has pods of its own.
	other := newManager(t, cfg)
	if got := shares(t, burstable); got != sharesOf(1500) {
		t.Errorf("after a second agent started: burstable %s", got)
	}
	if err := other.Balance(pods[1:]); err != nil {
		t.Fatal(err)
	}
	// The first agent has no change.
	if err := m.Balance(pods); err != nil {
		t.Fatal(err)
	}
	if got := shares(t, burstable); got != sharesOf(500) {
		t.Errorf("burstable %s, want the last agent's", got)
	}
	if err := m.Balance(pods[:1]); err != nil {
		t.Fatal(err)
	}
	if got := shares(t, burstable); got != sharesOf(1000) {
		t.Errorf("burstable %s after a pod has gone", got)
	}
}

// TestAllocatableInUse: pods that use more than allocatable don't keep the agent from starting.
func TestAllocatableInUse(t *testing.T) {
	root := newRoot(t)
	m := newManager(t, Config{Root: root})
	p := podOf("u", container(nil, nil))
	if err := m.Ensure(p); err != nil {
		t.Fatal(err)
	}
	eater := startEater(t, groupOf(t, m, p).Path("memory"), 32*mi)

	var limited []bool
	m = newManager(t, Config{Root: root, Allocatable: list("memory", "8Mi"), Limited: func(err error) {
		if err != nil && !errors.Is(err, ErrBusy) {
			t.Errorf("the limit fails with %v; want ErrBusy", err)
		}
		limited = append(limited, err == nil)
	}})
	if err := m.Balance(nil); !errors.Is(err, ErrBusy) {
		t.Errorf("balance: %v, want ErrBusy", err)
	}
	if !eater.lives() {
		t.Fatal("the pod was killed by the limit")
	}
	eater.kill(t)
	for range 2 {
		if err := m.Balance(nil); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(limited, []bool{false, true}) {
		t.Errorf("the limit is reported as set: %v; want no, then yes", limited)
	}
	if limits, err := m.tiers.kubepods.group.limits(); err != nil || limits.Memory != 8*mi {
		t.Errorf("%d bytes, %v", limits.Memory, err)
	}
}
