package logind_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
)

// This file has attacks by another client of the bus.

// A signal of another client is no shutdown: only logind's own answer counts. A flood of them is not stored, and file
// descriptors are not accepted.
func TestForgedSignals(t *testing.T) {
	bus, login := newLogin(t)
	c := dial(t, bus, login)
	attacker, err := dbus.Connect("unix:path=" + bus.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer attacker.Close()
	victim := victimOf(t, attacker)
	before := descriptors(t)
	for range 100 {
		forge(t, attacker, victim, "org.freedesktop.login1.Manager", "PrepareForShutdown", true, dbus.UnixFD(0))
		forge(t, attacker, victim, "org.freedesktop.login1.Manager", "PrepareForShutdown", true)
		forge(t, attacker, victim, "org.freedesktop.DBus", "NameOwnerChanged", "org.freedesktop.login1", ":1.1", "")
	}
	await(t, "a forged signal arrives", c.Changed())
	wantPreparing(t, c, false)
	select {
	case <-c.Lost():
		t.Error("a forged signal ends the connection")
	default:
	}
	if now := descriptors(t); now > before {
		t.Errorf("%d descriptors are open; want %d", now, before)
	}
}

// victimOf returns the name of the bus's client that is neither logind nor the attacker.
func victimOf(t *testing.T, attacker *dbus.Conn) string {
	t.Helper()
	var names []string
	var login string
	if err := attacker.BusObject().Call("org.freedesktop.DBus.ListNames", 0).Store(&names); err != nil {
		t.Fatal(err)
	}
	if err := attacker.BusObject().Call("org.freedesktop.DBus.GetNameOwner", 0, "org.freedesktop.login1").Store(&login); err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasPrefix(name, ":") || name == login || slices.Contains(attacker.Names(), name)
	})
	if len(names) != 1 {
		t.Fatalf("the other clients of the bus are %q; want one", names)
	}
	return names[0]
}

// forge sends a signal to one client of the bus.
func forge(t *testing.T, attacker *dbus.Conn, victim, iface, member string, body ...any) {
	t.Helper()
	if call := attacker.Send(forged(victim, iface, member, body...), nil); call.Err != nil {
		t.Fatal(call.Err)
	}
}

// forged returns a signal to one client of the bus.
func forged(victim, iface, member string, body ...any) *dbus.Message {
	return &dbus.Message{Type: dbus.TypeSignal, Body: body, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldInterface: dbus.MakeVariant(iface), dbus.FieldMember: dbus.MakeVariant(member),
		dbus.FieldPath:        dbus.MakeVariant(dbus.ObjectPath("/org/freedesktop/login1")),
		dbus.FieldDestination: dbus.MakeVariant(victim), dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(body...)),
	}}
}

// A message that is larger than logind's is discarded unread: decoded, it would take many times its size.
func TestLargeSignals(t *testing.T) {
	bus, login := newLogin(t)
	c := dial(t, bus, login)
	socket, err := net.Dial("unix", bus.Socket)
	if err != nil {
		t.Fatal(err)
	}
	attacker, err := dbus.NewConn(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer attacker.Close()
	if err := errors.Join(attacker.Auth(nil), attacker.Hello()); err != nil {
		t.Fatal(err)
	}
	large := forged(victimOf(t, attacker), "org.freedesktop.login1.Manager", "PrepareForShutdown", slices.Repeat([]dbus.Variant{dbus.MakeVariant(byte(1))}, 1<<17))
	large.Flags = dbus.FlagNoReplyExpected
	var encoded bytes.Buffer
	if err := large.EncodeTo(&encoded, binary.LittleEndian); err != nil {
		t.Fatal(err)
	}
	// The library sets the serial when it sends a message.
	binary.LittleEndian.PutUint32(encoded.Bytes()[8:], 1<<30)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 4 {
		if _, err := socket.Write(encoded.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	forge(t, attacker, victimOf(t, attacker), "org.freedesktop.login1.Manager", "PrepareForShutdown", true)
	await(t, "the signal after the large ones arrives", c.Changed())
	runtime.ReadMemStats(&after)
	t.Logf("messages of %d bytes take %d bytes", 4*encoded.Len(), after.TotalAlloc-before.TotalAlloc)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > uint64(encoded.Len()) {
		t.Errorf("messages of %d bytes take %d bytes of memory", 4*encoded.Len(), taken)
	}
	wantPreparing(t, c, false)
}

func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}
