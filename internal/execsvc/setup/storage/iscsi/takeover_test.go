package iscsi

import (
	"errors"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

func morePortals(all ...string) func(*v1.ISCSIPersistentVolumeSource) {
	return func(s *v1.ISCSIPersistentVolumeSource) { s.Portals = all }
}

// TestDeadPortal: a session that another program makes to a portal of a volume to which podexecd's login failed isn't podexecd's. It is given
// to no volume, nor ended, nor is a disk of it removed, nor its record of open-iscsi.
func TestDeadPortal(t *testing.T) {
	b := newBench(t, 1, 2)
	v := b.persistent("u1", pv(1, morePortals(portal2)), false)
	b.up(v)
	if _, has := b.records.get(v.sessions(t)[1]); has || b.hasNode(portal2) {
		t.Errorf("podexecd's record is left: %v, open-iscsi's %v", has, b.hasNode(portal2))
	}
	b.addPortal(portal2)
	b.run(append(node(portal2), "-o", "new")...)
	b.run(append(node(portal2), "--login")...)
	b.machine.mu.Lock()
	b.appear(2, 1)
	b.machine.mu.Unlock()
	b.calls()
	for _, other := range []volume{b.persistent("u2", pv(2, at(portal2)), false), v} {
		err := b.Stage(t.Context(), other.Staging)
		if _, is := errors.AsType[*NotOwnError](err); !is || storage.OutcomeOf(err) != storage.Unrepeatable {
			t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
		}
		if other.Key != v.Key {
			must(t, b.Unstage(t.Context(), other.Staging))
		}
	}
	b.start("boot")
	b.down(v)
	if _, deletes := b.written(); len(deletes) != 1 || !b.hasSession(portal2) || !b.hasNode(portal2) || b.hasSession(portal1) {
		t.Errorf("deleted disks %q, session %v, record %v", deletes, b.hasSession(portal2), b.hasNode(portal2))
	}
	if calls := b.calls(); strings.Count(calls, "--logout") != 1 || strings.Contains(calls, portal2+" -I default -o delete") {
		t.Errorf("calls:\n%s", calls)
	}
}

// TestDeadPortalFree: a portal to which a volume's login failed is free for another volume, and the first one has that path when it is gone.
func TestDeadPortalFree(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1, morePortals(portal2)), false)
	b.up(v)
	b.addPortal(portal2)
	b.others, b.foreign = map[int]string{1: loop(t)}, true
	other := b.persistent("u2", pv(1, at(portal2)), false)
	b.up(other)
	b.down(other)
	b.others = nil
	b.foreign = false
	b.up(v)
	if !b.hasSession(portal2) {
		t.Error("the volume doesn't get its second path")
	}
	b.down(v)
	b.nothing()
}

// TestReplacedNode: a record of open-iscsi that its owner has made in the place of podexecd's stays, and a boot's session by it too.
func TestReplacedNode(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1), false)
	must(t, b.Stage(t.Context(), v.Staging))
	b.run(append(node(portal1), "-o", "new")...)
	b.unplug(v)
	b.run(append(node(portal1), "--login")...)
	b.start("another")
	err := b.Stage(t.Context(), v.Staging)
	if _, is := errors.AsType[*NotOwnError](err); !is {
		t.Errorf("error %v", err)
	}
	must(t, b.Unstage(t.Context(), v.Staging))
	if !b.hasSession(portal1) || !b.hasNode(portal1) {
		t.Errorf("session %v, record %v", b.hasSession(portal1), b.hasNode(portal1))
	}
	b.run(append(node(portal1), "--logout")...)
	if err := b.Stage(t.Context(), v.Staging); err == nil || !strings.Contains(err.Error(), "podexecd didn't make the record") {
		t.Errorf("error %v", err)
	}
	must(t, b.Unstage(t.Context(), v.Staging))
	b.start("another")
	waitFor(t, func() bool { all, _ := b.records.list(); return len(all) == 0 })
	if !b.hasNode(portal1) || !strings.Contains(b.log.String(), "isn't as podexecd made it") {
		t.Errorf("record %v, log:\n%s", b.hasNode(portal1), b.log.String())
	}
	must(t, os.Remove(b.path("nodes", target+","+portal1)))
	b.nothing()
}

// TestGoneSession: so it is if the volume had a session, which is gone, and the login of another volume failed.
func TestGoneSession(t *testing.T) {
	b := newBench(t, 1, 2)
	v, other := b.persistent("u1", pv(1), false), b.persistent("u2", pv(2), false)
	must(t, b.Stage(t.Context(), v.Staging))
	b.unplug(v)
	must(t, os.Rename(b.path("down", portal1), b.path("away")))
	if err := b.Stage(t.Context(), other.Staging); storage.OutcomeOf(err) != storage.Final || !strings.Contains(err.Error(), "exit status 8") {
		t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
	must(t, os.Rename(b.path("away"), b.path("down", portal1)))
	b.run(append(node(portal1), "-o", "new")...)
	b.run(append(node(portal1), "--login")...)
	b.machine.mu.Lock()
	b.appear(1, 1)
	b.machine.mu.Unlock()
	b.calls()
	b.start("boot")
	for _, volume := range []volume{v, other} {
		err := b.Stage(t.Context(), volume.Staging)
		if _, is := errors.AsType[*NotOwnError](err); !is {
			t.Errorf("error %v", err)
		}
		must(t, b.Unstage(t.Context(), volume.Staging))
	}
	if _, deletes := b.written(); len(deletes) != 0 || !b.hasSession(portal1) || !b.hasNode(portal1) {
		t.Errorf("deleted disks %q, session %v, record %v, calls:\n%s", deletes, b.hasSession(portal1), b.hasNode(portal1), b.calls())
	}
}
