package iscsi

import (
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// discovered makes a record as a discovery does: with the tag of a portal group, in place of one without.
func (b *bench) discovered(target, portal, iface string) (file string) {
	b.t.Helper()
	of := []string{"-m", "node", "-T", target, "-p", portal + ",1", "-I", iface}
	b.run(append(of, "-o", "new")...)
	b.run(append(of, "-o", "update", "-n", "node.startup", "-v", "onboot")...)
	return b.path("nodes", target+","+portal+",1,"+iface)
}

func (b *bench) unchanged(file string) {
	b.t.Helper()
	if data, err := os.ReadFile(file); err != nil || !strings.Contains(string(data), "node.startup = onboot\n") {
		b.t.Errorf("%s is changed: %q, %v", file, data, err)
	}
}

// TestDiscovery: a record that a discovery makes while a session is podexecd's stays. The session is shared and ends, and none is made
// with this record.
func TestDiscovery(t *testing.T) {
	b := newBench(t, 1, 2)
	v, other := b.persistent("u1", pv(1), false), b.persistent("u2", pv(2), false)
	b.up(v)
	file := b.discovered(target, portal1, "default")
	b.up(other)
	b.down(v)
	b.down(other)
	b.unchanged(file)
	if b.hasSession(portal1) || !strings.Contains(b.log.String(), "-I default -o delete") {
		t.Errorf("session %v, log:\n%s", b.hasSession(portal1), b.log.String())
	}
	if entries, err := os.ReadDir(b.path("records")); err != nil || len(entries) > 0 {
		t.Errorf("records: %v, %v", entries, err)
	}
	err := b.Stage(t.Context(), v.Staging)
	if storage.OutcomeOf(err) != storage.Unrepeatable || !strings.Contains(err.Error(), "podexecd didn't make the record") {
		t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
	must(t, b.Unstage(t.Context(), v.Staging))
	b.unchanged(file)
	must(t, os.Remove(file))
	b.up(v)
	b.down(v)
	b.nothing()
}

// TestDiscoveryAfterBoot: a record that a discovery makes is neither used nor deleted for a session of the boot before.
func TestDiscoveryAfterBoot(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1), false)
	must(t, b.Stage(t.Context(), v.Staging))
	b.unplug(v)
	file := b.discovered(target, portal1, "default")
	b.start("another")
	if err := b.Stage(t.Context(), v.Staging); err == nil || !strings.Contains(err.Error(), "podexecd didn't make the record") {
		t.Errorf("error %v", err)
	}
	b.unchanged(file)
	must(t, b.Unstage(t.Context(), v.Staging))
	b.unchanged(file)
	must(t, os.Remove(file))
	b.nothing()
}

// TestDiscoveryIface: a discovery makes records for podexecd's iface too, of each target of the portal. The iface's end would be theirs.
func TestDiscoveryIface(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1, func(s *v1.ISCSIPersistentVolumeSource) { s.InitiatorName = ptr.To("iqn.2026-01.com.example:node") }), false)
	iface := v.sessions(t)[0].Iface
	b.up(v)
	file := b.discovered(target+"x", portal1, iface)
	b.down(v)
	b.unchanged(file)
	if !exists(b.path("ifaces", iface)) || !strings.Contains(b.log.String(), "-m iface -I "+iface+" -o delete") {
		t.Errorf("the iface is deleted, or not logged:\n%s", b.log.String())
	}
	b.run("-m", "iface", "-I", iface, "-o", "delete")
	b.log.Reset()
	b.up(v)
	file = b.discovered(target, portal1, iface)
	b.down(v)
	b.unchanged(file)
	if !exists(b.path("ifaces", iface)) || !strings.Contains(b.log.String(), "-m iface -I "+iface+" -o delete") {
		t.Errorf("the iface of the volume's record is deleted, or not logged:\n%s", b.log.String())
	}
	b.run("-m", "iface", "-I", iface, "-o", "delete")
	b.up(v)
	b.down(v)
	b.nothing()
	if exists(b.path("ifaces", iface)) {
		t.Error("the iface is left")
	}
}
