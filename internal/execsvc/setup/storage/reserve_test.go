package storage

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// key is that of the volume h.
var key = record.Key{Driver: "d", Handle: "h"}

// TestReserve: a reserved volume is set up for no pod, and one that a pod has isn't reserved.
func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, t.TempDir(), newTruth(), nil)
		release, err := n.Reserve(key)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.setUp(pod("one", "h")); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "is being removed or replaced on request") {
			t.Errorf("a pod: %v", err)
		}
		if _, err := n.Reserve(key); !errors.Is(err, ErrBusy) {
			t.Errorf("a second time: %v", err)
		}
		other, err := n.Reserve(record.Key{Driver: "d", Handle: "other"})
		if err != nil {
			t.Fatal(err)
		}
		other()
		release()
		n.mustSetUp(pod("one", "h"))
		n.mustSetUp(pod("two", "h"))
		_, err = n.Reserve(key)
		used, ok := errors.AsType[*UsedError](err)
		if !ok || len(used.Users) != 2 || used.Users[0] != (User{"one", "ns/one"}) || !strings.Contains(err.Error(), "pod ns/one uses volume h") {
			t.Errorf("a volume in use: %v", err)
		}
		if all := n.Users("d"); len(all) != 1 || len(all["h"]) != 2 || len(n.Users("other")) != 0 {
			t.Errorf("the users are %v", all)
		}
		n.mustTearDown("one")
		if _, err := n.Reserve(key); err == nil {
			t.Error("a volume that one pod still uses is reserved")
		}
		n.mustTearDown("two")
		synctest.Wait() // The volume leaves volumesInUse.
		if release, err = n.Reserve(key); err != nil {
			t.Fatalf("after the last pod: %v", err)
		}
		n.stop()
		if _, err := n.Reserve(record.Key{Driver: "d", Handle: "other"}); !errors.Is(err, ErrStopped) {
			t.Errorf("after the end: %v", err)
		}
		release()
	})
}

// TestReserveAfterRestart: a volume that an earlier podexecd published is used before any pod asks for it, by the pod's recorded
// name. Before the records are read, none is reserved.
func TestReserveAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, d := t.TempDir(), newTruth()
		n := start(t, dir, d, nil)
		n.mustSetUp(pod("one", "h"))
		n.stop()
		records, err := record.Open(filepath.Join(dir, "volumes"), "agent")
		if err != nil {
			t.Fatal(err)
		}
		early := New(Config{Records: records, Agent: "agent", Boot: "boot", Backends: map[string]Backend{"b": d}, Claims: &claims{}})
		if _, err := early.Reserve(record.Key{Driver: "d", Handle: "other"}); !errors.Is(err, ErrBusy) || early.Ready() {
			t.Errorf("before the records are read: %v", err)
		}
		n = start(t, dir, d, nil)
		if !n.Ready() {
			t.Error("it isn't ready")
		}
		if _, err := n.Reserve(key); err == nil || !strings.Contains(err.Error(), "pod ns/one uses volume h") {
			t.Errorf("after a restart: %v", err)
		}
	})
}
