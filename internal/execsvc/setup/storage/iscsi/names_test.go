package iscsi

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/durable"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// names are the addresses of host names. One without gets no answer until end is closed. Others don't exist.
type names struct {
	mu     sync.Mutex
	hosts  map[string]string
	asked  []string
	asking chan time.Time
	end    chan struct{}
}

func (n *names) lookUp(ctx context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	n.asked = append(n.asked, host)
	address, has := n.hosts[host]
	n.mu.Unlock()
	switch {
	case !has:
		return nil, errors.New("no such host")
	case address == "":
		until, _ := ctx.Deadline()
		n.asking <- until
		<-n.end
		return nil, context.DeadlineExceeded
	}
	return []netip.Addr{netip.IPv4Unspecified(), netip.MustParseAddr(address)}, nil
}

func (n *names) set(host, address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[host] = address
}

func (b *bench) withNames(hosts map[string]string) *names {
	n := &names{hosts: hosts, asking: make(chan time.Time, 16), end: make(chan struct{})}
	b.lookUp = n.lookUp
	b.start("boot")
	return n
}

// TestPortalByName: open-iscsi gets the address of a portal's host name, which is one with the address. The address is that of the volume until
// it is unstaged, whatever the name's is then, and after a restart.
func TestPortalByName(t *testing.T) {
	const other = "192.0.2.7:3260"
	b := newBench(t, 1, 2)
	names := b.withNames(map[string]string{"store.example": "192.0.2.1"})
	b.addPortal(other)
	v, second := b.persistent("u1", pv(1, at("store.example")), false), b.persistent("u2", pv(2), false)
	b.up(v)
	b.up(second)
	if calls := b.calls(); strings.Contains(calls, "store.example") || strings.Count(calls, "--login") != 1 {
		t.Errorf("calls:\n%s", calls)
	}
	// The same disk, by its other name.
	same := b.persistent("u3", pv(1), false)
	err := b.Stage(t.Context(), same.Staging)
	if _, is := errors.AsType[*ConflictError](err); !is || !strings.Contains(err.Error(), "by the volume store.example:3260:"+target+":1") {
		t.Errorf("error %v", err)
	}
	must(t, b.Unstage(t.Context(), same.Staging))
	b.down(second)
	names.set("store.example", "192.0.2.7")
	b.start("boot")
	b.up(v)
	// Another volume with the mount point.
	clash := b.persistent("u4", pv(1, at("store.example"), func(s *v1.ISCSIPersistentVolumeSource) { s.FSType = "ext3" }), false)
	if _, is := errors.AsType[*ConflictError](b.Stage(t.Context(), clash.Staging)); !is {
		t.Error("it gets the mount point of another volume")
	}
	must(t, b.Unstage(t.Context(), clash.Staging))
	if !exists(v.pub.Dir + "/lost+found") {
		t.Error("the mount is gone")
	}
	must(t, b.Publish(t.Context(), v.pub))
	names.mu.Lock()
	if len(names.asked) != 2 {
		t.Errorf("asked for %q", names.asked)
	}
	names.mu.Unlock()
	b.down(v)
	b.nothing()
	b.up(v)
	if !b.hasSession(other) || b.hasSession(portal1) {
		t.Error("the next session isn't made to the new address")
	}
	b.down(v)
	b.nothing()
}

// TestNameAfterBoot: the name's address was another one before the boot: its record ends with the volume.
func TestNameAfterBoot(t *testing.T) {
	const other = "192.0.2.7:3260"
	b := newBench(t, 1)
	names := b.withNames(map[string]string{"store.example": "192.0.2.1"})
	b.addPortal(other)
	v := b.persistent("u1", pv(1, at("store.example")), false)
	must(t, b.Stage(t.Context(), v.Staging))
	b.unplug(v)
	b.run("-m", "session", "-r", "1", "--logout")
	names.set("store.example", "192.0.2.7")
	b.start("another")
	b.up(v)
	if !b.hasSession(other) {
		t.Error("there is no session to the new address")
	}
	b.down(v)
	b.nothing()
}

// TestNameWithoutAnswer: host names are looked up at the same time, before any lock is taken. A volume whose other portals answer doesn't
// need them.
func TestNameWithoutAnswer(t *testing.T) {
	b := newBench(t, 1, 2)
	names := b.withNames(map[string]string{"a.example": "", "b.example": ""})
	v := b.persistent("u1", pv(1, morePortals("a.example", "b.example", "127.1")), false)
	only := b.persistent("u2", pv(1, at("127.1")), false)
	if err := b.Stage(t.Context(), only.Staging); storage.OutcomeOf(err) != storage.NotSent || !strings.Contains(err.Error(), "127.1:3260: no such host") {
		t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
	done := make(chan error, 1)
	go func() { done <- b.Stage(t.Context(), v.Staging) }()
	for range 2 {
		if left := time.Until(<-names.asking); left > lookUpLimit {
			t.Errorf("a look-up may take %s", left)
		}
	}
	other := b.persistent("u3", pv(2), false)
	b.up(other)
	b.down(other)
	close(names.end)
	must(t, <-done)
	b.down(v)
	b.nothing()
}

// TestTwoNames: a volume that names a portal by its address and by names has one session to it.
func TestTwoNames(t *testing.T) {
	b := newBench(t, 1)
	b.withNames(map[string]string{"a.example": "192.0.2.1", "b.example": "192.0.2.1"})
	v := b.persistent("u1", pv(1, at("a.example"), morePortals("192.0.2.1", "b.example")), false)
	b.up(v)
	b.start("boot")
	b.up(v)
	b.down(v)
	b.nothing()
}

// TestNamedSession: a session that an earlier podexecd made to a host name is used as long as it is there, keeps a second one to its address
// away, and ends with the volume.
func TestNamedSession(t *testing.T) {
	const name = "store.example:3260"
	b := newBench(t, 1, 2)
	b.addPortal(name)
	b.withNames(map[string]string{"store.example": "192.0.2.1"})
	must(t, os.WriteFile(b.path("down", name, "session2/connection2:0/iscsi_connection/connection2:0/address"), []byte("192.0.2.1\n"), 0o600))
	v := b.persistent("u1", pv(1, at(name)), false)
	old := initiator.Session{Target: target, Portal: name, Iface: "default"}
	for _, gone := range []bool{false, true} {
		rec := session{Version: recordVersion, Agent: "agent", Boot: "boot", Session: old, Users: []user{{Handle: v.Handle, LUN: 1}}}
		rec.SID = "session2"
		data, err := json.Marshal(rec)
		must(t, err)
		file := b.path("records", fileName(old))
		must(t, durable.Write(file, file+".new", data, fileMode))
		of := []string{"-m", "node", "-T", target, "-p", name, "-I", "default"}
		b.run(append(of, "-o", "new")...)
		for _, m := range [][2]string{{"node.startup", "manual"}, {"node.conn[0].startup", "manual"}, {"node.session.initial_login_retry_max", "1"}} {
			b.run(append(of, "-o", "update", "-n", m[0], "-v", m[1])...)
		}
		b.run(append(of, "--login")...)
		b.start("boot")
		b.up(v)
		byAddress := b.persistent("u2", pv(2), false)
		if _, is := errors.AsType[*ConflictError](b.Stage(t.Context(), byAddress.Staging)); !is {
			t.Error("the address isn't taken for the name's")
		}
		must(t, b.Unstage(t.Context(), byAddress.Staging))
		if gone {
			b.unplug(v)
			err := b.Stage(t.Context(), v.Staging)
			if storage.OutcomeOf(err) != storage.NotSent || !strings.Contains(err.Error(), "isn't there any more") || b.hasNode(name) {
				t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
			}
			must(t, b.Unpublish(t.Context(), v.pub))
			b.up(v)
			if !b.hasSession(portal1) {
				t.Error("there is no session to the address")
			}
		}
		b.down(v)
		b.nothing()
	}
}
