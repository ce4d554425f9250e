package iscsi

import (
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func at(portal string) func(*v1.ISCSIPersistentVolumeSource) {
	return func(s *v1.ISCSIPersistentVolumeSource) { s.TargetPortal = portal }
}

// TestRedirect: a target may redirect a login to the portal of another volume. Each volume has its own session, whichever is first.
func TestRedirect(t *testing.T) {
	const other = "192.0.2.2:3260"
	for _, first := range []bool{true, false} {
		b := newBench(t, 1, 2)
		b.addPortal(other)
		redirected, direct := b.persistent("u1", pv(1), false), b.persistent("u2", pv(2, at(other)), false)
		must(t, os.WriteFile(b.path("down", portal1, "session1/connection1:0/iscsi_connection/connection1:0/address"), []byte("192.0.2.2\n"), 0o600))
		if !first {
			b.up(direct)
		}
		b.up(redirected)
		if first {
			b.up(direct)
		}
		b.start("boot")
		for _, v := range []volume{redirected, direct} {
			must(t, b.Stage(t.Context(), v.Staging))
		}
		b.down(redirected)
		if !b.hasSession(other) {
			t.Error("the session of the other volume is ended")
		}
		b.up(redirected)
		b.down(direct)
		b.down(redirected)
		b.nothing()
	}
}

// TestRedirectedName: of a session to a host name and one to the address that it had, each is its volume's.
func TestRedirectedName(t *testing.T) {
	const name, address = "store.example:3260", "192.0.2.9:3260"
	b := newBench(t, 1, 2)
	b.addPortal(name)
	b.addPortal(address)
	v := b.persistent("u1", pv(2, at(address)), false)
	b.up(v)
	// Its address becomes that of the volume's portal.
	b.run("-m", "node", "-T", target, "-p", name, "-I", "default", "-o", "new")
	b.run("-m", "node", "-T", target, "-p", name, "-I", "default", "--login")
	must(t, os.WriteFile(b.path("sys/devices/host2/session2/connection2:0/iscsi_connection/connection2:0/address"), []byte("192.0.2.9\n"), 0o600))
	must(t, b.Stage(t.Context(), v.Staging))
	b.down(v)
	if b.hasSession(address) || !b.hasSession(name) {
		t.Error("the session of another is ended, or the volume's isn't")
	}
	b.run("-m", "node", "-T", target, "-p", name, "-I", "default", "--logout")
	if calls := b.calls(); strings.Count(calls, "--logout") != 2 {
		t.Errorf("calls:\n%s", calls)
	}
}
