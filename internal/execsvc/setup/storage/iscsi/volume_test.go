package iscsi

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestLogoutByNumber: podexecd logs out of a session by the kernel's number of it. A logout by the portal would end each session of the target
// whose portal is a name of the same address.
func TestLogoutByNumber(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1), false)
	b.up(v)
	b.calls()
	b.down(v)
	if calls := b.calls(); !strings.Contains(calls, "-m session -r 1 --logout\n") || strings.Count(calls, "--logout") != 1 {
		t.Errorf("%s", calls)
	}
	b.nothing()
}

// TestVolume: a blank disk is formatted and mounted where the kubelet mounts it; its session and its record go with the last volume.
func TestVolume(t *testing.T) {
	b := newBench(t, 1, 2)
	first, second := b.persistent("u1", pv(1), false), b.persistent("u2", pv(2), false)
	for range 2 {
		b.up(first)
	}
	global := filepath.Join(b.kubelet, "plugins/kubernetes.io/iscsi/iface-default", portal1+"-"+target+"-lun-1")
	file := filepath.Join(first.pub.Dir, "file")
	must(t, os.WriteFile(file, []byte("data"), 0o600))
	if data, err := os.ReadFile(filepath.Join(global, "file")); err != nil || string(data) != "data" {
		t.Errorf("%q, %v", data, err)
	}
	if info, err := os.Stat(first.pub.Dir); err != nil || info.Sys().(*syscall.Stat_t).Gid != 4711 {
		t.Errorf("%+v, %v", info, err)
	}
	record, err := os.ReadFile(b.path("nodes", target+","+portal1))
	must(t, err)
	for _, want := range []string{"node.startup = manual", "node.conn[0].startup = manual", "node.session.scan = manual"} {
		if !strings.Contains(string(record), want+"\n") {
			t.Errorf("the record of open-iscsi lacks %s:\n%s", want, record)
		}
	}
	b.calls()
	b.up(second)
	if calls := b.calls(); strings.Contains(calls, "--login") || strings.Contains(calls, "-o") {
		t.Errorf("for a second disk of a session:\n%s", calls)
	}
	if scans, _ := b.written(); !slices.Equal(slices.Compact(scans), []string{"host1: 0 0 1", "host1: 0 0 2"}) {
		t.Errorf("scans: %q", scans)
	}
	b.down(first)
	if _, deletes := b.written(); !slices.Equal(deletes, []string{"sda"}) || !b.hasSession(portal1) || exists(global) {
		t.Errorf("the disks %q are removed", deletes)
	}
	b.down(second)
	b.down(second)
	b.nothing()
	// It isn't formatted again.
	b.up(first)
	if data, err := os.ReadFile(file); err != nil || string(data) != "data" {
		t.Errorf("%q, %v", data, err)
	}
	b.down(first)
	b.nothing()
}
