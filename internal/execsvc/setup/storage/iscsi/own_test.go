package iscsi

import (
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// TestHostsSession: a session and a record of open-iscsi that podexecd didn't make are neither used nor changed.
func TestHostsSession(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1), false)
	b.run(append(node(portal1), "-o", "new")...)
	for _, loggedIn := range []bool{false, true} {
		if loggedIn {
			b.run(append(node(portal1), "--login")...)
		}
		before, err := os.ReadFile(b.path("nodes", target+","+portal1))
		must(t, err)
		b.calls()
		for range 2 {
			err := b.Stage(t.Context(), v.Staging)
			if storage.OutcomeOf(err) != storage.Unrepeatable || !strings.Contains(err.Error(), "podexecd didn't make") {
				t.Errorf("logged in: %v: %v", loggedIn, err)
			}
			must(t, b.Unstage(t.Context(), v.Staging))
		}
		if calls := b.calls(); strings.Contains(calls, "-o") || strings.Contains(calls, "--log") {
			t.Errorf("logged in: %v: it is changed:\n%s", loggedIn, calls)
		}
		after, err := os.ReadFile(b.path("nodes", target+","+portal1))
		if err != nil || string(after) != string(before) || b.hasSession(portal1) != loggedIn {
			t.Errorf("logged in: %v: %q, %v", loggedIn, after, err)
		}
	}
	if scans, _ := b.written(); len(scans) > 0 {
		t.Errorf("its units are scanned: %q", scans)
	}
}

// TestOneRecord: open-iscsi has one record of a target at a portal, whichever its iface is, unless it has the tag of a portal group.
func TestOneRecord(t *testing.T) {
	b := newBench(t, 1, 2)
	must(t, os.WriteFile(b.path("ifaces/eth0"), nil, 0o600))
	v := b.persistent("u1", pv(1), false)
	for _, tag := range []string{"", ",1"} {
		of := []string{"-m", "node", "-T", target, "-p", portal1 + tag, "-I", "eth0"}
		b.run(append(of, "-o", "new")...)
		b.run(append(of, "-o", "update", "-n", "node.startup", "-v", "onboot")...)
		err := b.Stage(t.Context(), v.Staging)
		if tag == "" && (storage.OutcomeOf(err) != storage.Unrepeatable || !strings.Contains(err.Error(), "-I eth0 -o delete")) || tag != "" && err != nil {
			t.Errorf("tag %q: %v", tag, err)
		}
		must(t, b.Unstage(t.Context(), v.Staging))
		file := b.path("nodes", target+","+portal1)
		if tag != "" {
			file += ",1,eth0"
		}
		if data, err := os.ReadFile(file); err != nil || !strings.Contains(string(data), "node.startup = onboot\n") {
			t.Errorf("tag %q: it is changed: %q, %v", tag, data, err)
		}
		must(t, os.Remove(file))
	}
	b.up(v)
	node, err := os.ReadFile(b.path("nodes", target+","+portal1))
	must(t, err)
	other := b.persistent("u2", pv(2, func(s *v1.ISCSIPersistentVolumeSource) { s.ISCSIInterface = "eth0" }), false)
	if err := b.Stage(t.Context(), other.Staging); storage.OutcomeOf(err) != storage.Unrepeatable || !strings.Contains(err.Error(), "one iface at a time") {
		t.Errorf("error %v", err)
	}
	must(t, b.Unstage(t.Context(), other.Staging))
	if data, err := os.ReadFile(b.path("nodes", target+","+portal1)); err != nil || string(data) != string(node) {
		t.Errorf("the record is %q, %v", data, err)
	}
	b.down(v)
	b.up(other)
	b.down(other)
	b.nothing()
}

// TestRestart: what was attached before podexecd was restarted is mounted once, and detached.
func TestRestart(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1), false)
	b.up(v)
	b.start("boot")
	b.calls()
	b.up(v)
	if calls := b.calls(); strings.Contains(calls, "--login") {
		t.Errorf("it logs in again:\n%s", calls)
	}
	b.start("boot")
	b.down(v)
	b.nothing()
}

// TestLostConnection: a session whose portal doesn't answer any more is podexecd's, isn't scanned, and ends with the volume.
func TestLostConnection(t *testing.T) {
	b := newBench(t, 1, 2)
	v, other := b.persistent("u1", pv(1), false), b.persistent("u2", pv(2), false)
	b.up(v)
	b.written()
	const session = "sys/devices/host1/session1/"
	must(t, os.Remove(b.path(session+"connection1:0/iscsi_connection/connection1:0/address")))
	must(t, os.WriteFile(b.path(session+"iscsi_session/session1/state"), []byte("FAILED\n"), 0o600))
	err := b.Stage(t.Context(), other.Staging)
	if storage.OutcomeOf(err) != storage.Final || !strings.Contains(err.Error(), "the state FAILED") {
		t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
	if scans, _ := b.written(); len(scans) > 0 {
		t.Errorf("scans: %q", scans)
	}
	b.down(v)
	b.nothing()
}

// TestReboot: a session that was made after the boot isn't podexecd's, whatever its records say; its record of open-iscsi is, unless
// there is such a session.
func TestReboot(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1), false)
	for _, loggedIn := range []bool{false, true} {
		must(t, b.Stage(t.Context(), v.Staging))
		// The boot: mounts, disks and sessions are gone.
		b.unplug(v)
		if loggedIn {
			b.run(append(node(portal1), "--login")...)
		}
		b.start("another")
		if loggedIn {
			if err := b.Stage(t.Context(), v.Staging); err == nil {
				t.Error("the session of another is used")
			}
		}
		must(t, b.Unstage(t.Context(), v.Staging))
		if b.hasSession(portal1) != loggedIn || b.hasNode(portal1) != loggedIn {
			t.Errorf("logged in: %v: session %v, record %v", loggedIn, b.hasSession(portal1), b.hasNode(portal1))
		}
		if !loggedIn {
			b.nothing()
			b.start("boot")
		}
	}
	b.run(append(node(portal1), "--logout")...)
}

// TestOtherSID: a session in the place of podexecd's isn't ended.
func TestOtherSID(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1), false)
	must(t, b.Stage(t.Context(), v.Staging))
	b.unplug(v)
	// The kernel gives it another number.
	must(t, os.WriteFile(b.path("down", portal1, "number"), []byte("7\n"), 0o600))
	must(t, os.Rename(b.path("down", portal1, "session1"), b.path("down", portal1, "session7")))
	must(t, os.Rename(b.path("down", portal1, "session7/iscsi_session/session1"), b.path("down", portal1, "session7/iscsi_session/session7")))
	must(t, os.Rename(b.path("down", portal1, "scsi_host/host1"), b.path("down", portal1, "scsi_host/host7")))
	b.run(append(node(portal1), "--login")...)
	if err := b.Stage(t.Context(), v.Staging); err == nil || !strings.Contains(err.Error(), "session7") {
		t.Errorf("error %v", err)
	}
	must(t, b.Unstage(t.Context(), v.Staging))
	if !b.hasSession(portal1) || !b.hasNode(portal1) {
		t.Error("it is ended")
	}
}

// TestDamagedRecord: a session with a record that can't be read isn't touched.
func TestDamagedRecord(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1), false)
	must(t, b.Stage(t.Context(), v.Staging))
	entries, err := os.ReadDir(b.path("records"))
	must(t, err)
	file := b.path("records", entries[0].Name())
	good, err := os.ReadFile(file)
	must(t, err)
	for _, damaged := range []string{"{", strings.Replace(string(good), `"agent":"agent"`, `"agent":"another"`, 1)} {
		must(t, os.WriteFile(file, []byte(damaged), 0o600))
		b.start("boot")
		for _, err := range []error{b.Stage(t.Context(), v.Staging), b.Unstage(t.Context(), v.Staging)} {
			if err == nil || !strings.Contains(err.Error(), "can't be used") {
				t.Errorf("%q: %v", damaged, err)
			}
		}
		if data, err := os.ReadFile(file); err != nil || string(data) != damaged || !b.hasSession(portal1) {
			t.Errorf("%q: %q, %v", damaged, data, err)
		}
	}
	must(t, os.WriteFile(file, good, 0o600))
	b.start("boot")
	b.down(v)
	b.nothing()
}
