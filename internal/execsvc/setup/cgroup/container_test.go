package cgroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// TestRemoveContainer: the cgroup of a container goes, with a process that is left in it, and nothing else of the pod.
func TestRemoveContainer(t *testing.T) {
	m := newManager(t, Config{Root: newRoot(t)})
	p := podOf("u", container(list("cpu", "1"), nil))
	if err := m.Ensure(p); err != nil {
		t.Fatal(err)
	}
	g := groupOf(t, m, p)
	kept := []string{child(t, g, "memory", "c22"), child(t, g, "memory", "other/c2"), child(t, g, "pids", "other")}
	spared, left := sleeper(t), sleeper(t)
	spared.join(t, kept[1])
	gone := []string{child(t, g, "memory", "c2"), child(t, g, "pids", "c2/below"), child(t, g, "memory", "crio-c2/below")}
	left.join(t, gone[1])
	for range 2 {
		if err := m.RemoveContainer(inTime(t), p.UID, "c2"); err != nil {
			t.Fatal(err)
		}
	}
	left.awaitEnd(t)
	for _, dir := range append(gone, g.Path("pids")+"/c2", g.Path("memory")+"/crio-c2") {
		if isDir(dir) {
			t.Errorf("still there: %s", dir)
		}
	}
	for _, dir := range kept {
		if !isDir(dir) {
			t.Errorf("gone: %s", dir)
		}
	}
	if !spared.lives() || !g.exists() {
		t.Error("another process or the pod was touched")
	}
}

// TestRemoveContainerByID: no ID leads to a cgroup other than that of one container in the pod.
func TestRemoveContainerByID(t *testing.T) {
	m := newManager(t, Config{Root: newRoot(t)})
	for _, uid := range []types.UID{"u", "v"} {
		if err := m.Ensure(podOf(uid, container(nil, nil))); err != nil {
			t.Fatal(err)
		}
	}
	kept := child(t, groupOf(t, m, podOf("u", container(nil, nil))), "memory", "c1/d")
	for _, id := range []string{"", ".", "..", "/", "../podv", "c1/d", "/c1"} {
		if err := m.RemoveContainer(t.Context(), "u", id); err == nil {
			t.Errorf("%q is accepted as an ID", id)
		}
	}
	if err := m.RemoveContainer(t.Context(), "../v", "c1"); err == nil {
		t.Error("a path is accepted as a UID")
	}
	if !isDir(kept) || !groupOf(t, m, podOf("v", container(nil, nil))).exists() {
		t.Error("a cgroup is gone")
	}
	if err := (&Manager{off: true}).RemoveContainer(t.Context(), "u", "c1"); err != nil {
		t.Error(err)
	}
}

func TestContainerNames(t *testing.T) {
	for systemd, want := range map[bool][]string{
		false: {"c1", "crio-c1"}, true: {"cri-containerd-c1.scope", "crio-c1.scope"},
	} {
		if diff := cmp.Diff(want, driver{systemd: systemd}.containerNames("c1")); diff != "" {
			t.Errorf("systemd %t (-want +got):\n%s", systemd, diff)
		}
	}
}
