package cgroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestNames(t *testing.T) {
	const uid = types.UID("0b7e-11")
	for _, tc := range []struct {
		root              string
		class             v1.PodQOSClass
		cgroupfs, systemd string
	}{
		{"", v1.PodQOSGuaranteed, "/kubepods/pod0b7e-11", "/kubepods.slice/kubepods-pod0b7e_11.slice"},
		{"/", v1.PodQOSBurstable, "/kubepods/burstable/pod0b7e-11",
			"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0b7e_11.slice"},
		{"/", v1.PodQOSBestEffort, "/kubepods/besteffort/pod0b7e-11",
			"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod0b7e_11.slice"},
		{"/a-b/c/", v1.PodQOSGuaranteed, "/a-b/c/kubepods/pod0b7e-11",
			"/a_b.slice/a_b-c.slice/a_b-c-kubepods.slice/a_b-c-kubepods-pod0b7e_11.slice"},
		{"../x", v1.PodQOSGuaranteed, "/x/kubepods/pod0b7e-11", "/x.slice/x-kubepods.slice/x-kubepods-pod0b7e_11.slice"},
	} {
		n := newLayout(tc.root).pod(uid, tc.class)
		if got := (driver{}).path(n); got != tc.cgroupfs {
			t.Errorf("root %q, %s: %s, want %s", tc.root, tc.class, got, tc.cgroupfs)
		}
		if got := (driver{systemd: true}).path(n); got != tc.systemd {
			t.Errorf("root %q, %s: %s, want %s", tc.root, tc.class, got, tc.systemd)
		}
	}
	if got := parseName("/").systemd(); got != "/" {
		t.Errorf("the root is %s as a slice", got)
	}
}

// TestNamesAreApart: children of one name don't overwrite each other.
func TestNamesAreApart(t *testing.T) {
	l := newLayout("/a/b/c/d/e")
	names := l.everywhere("u")
	var got []string
	for _, n := range names {
		got = append(got, n.cgroupfs())
	}
	want := []string{"/a/b/c/d/e/kubepods/podu", "/a/b/c/d/e/kubepods/burstable/podu", "/a/b/c/d/e/kubepods/besteffort/podu"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestUnits: a unit is a slice with its full name in its parent slice.
func TestUnits(t *testing.T) {
	l := newLayout("")
	for _, tc := range []struct {
		name         name
		parent, unit string
	}{
		{l.kubepods, "-.slice", "kubepods.slice"},
		{l.burstable, "kubepods.slice", "kubepods-burstable.slice"},
		{l.pod("a-b", v1.PodQOSBurstable), "kubepods-burstable.slice", "kubepods-burstable-poda_b.slice"},
	} {
		cfg := driver{systemd: true}.config(tc.name)
		if cfg.Parent != tc.parent || cfg.Name != tc.unit || !cfg.Systemd || !cfg.SkipDevices {
			t.Errorf("%v: %+v", tc.name, cfg)
		}
		if cfg := (driver{}).config(tc.name); cfg.Path != tc.name.cgroupfs() || cfg.Systemd || !cfg.SkipDevices {
			t.Errorf("%v: %+v", tc.name, cfg)
		}
	}
}

func TestUIDs(t *testing.T) {
	for _, tc := range []struct {
		uid     types.UID
		systemd bool
		ok      bool
	}{
		{"a-b", false, true},
		{"a-b", true, true},
		{"a_b", false, true},
		{"a_b", true, false}, // It would be the slice of a-b.
		{"", false, false},
		{"..", false, false},
		{"a/../../b", false, false},
	} {
		m := &Manager{driver: driver{systemd: tc.systemd}}
		if err := m.check(tc.uid); (err == nil) != tc.ok {
			t.Errorf("%q, systemd %v: %v", tc.uid, tc.systemd, err)
		}
	}
}
