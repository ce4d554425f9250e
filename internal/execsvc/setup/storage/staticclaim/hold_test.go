package staticclaim

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/directory"
)

var data = directory.Claim{Namespace: "default", Name: "data"}

// bound returns a node whose claim default/data has a directory.
func bound(t *testing.T) (n *node, dir string) {
	t.Helper()
	n = newNode(t)
	n.claim("data", "", v1.ReadWriteOnce)
	if _, err := n.resolve("data"); err != nil {
		t.Fatal(err)
	}
	return n, filepath.Join(n.root, "claims", "default", "data")
}

func (n *node) hold() (release func()) {
	n.t.Helper()
	release, err := n.cfg.Bindings.Hold(data, "is being removed")
	if err != nil {
		n.t.Fatal(err)
	}
	return release
}

// TestHold: a held claim is neither bound nor resolved, and held once. Others are.
func TestHold(t *testing.T) {
	n, _ := bound(t)
	release := n.hold()
	n.refused("data", "the volume of claim default/data is being removed; the pod waits")
	if _, err := n.cfg.Bindings.Hold(data, "is being imported"); !errors.Is(err, ErrHeld) {
		t.Errorf("held twice: %v", err)
	}
	n.claim("other", "", v1.ReadWriteOnce)
	if _, err := n.resolve("other"); err != nil {
		t.Errorf("another claim: %v", err)
	}
	release()
	if _, err := n.resolve("data"); err != nil {
		t.Errorf("after the release: %v", err)
	}
	n.hold()() // It can be held again.
}

// TestUnmake: a directory that may have been removed is created for the next pod if it is missing, and used as it is otherwise,
// after a restart too. undo makes a missing one an error again.
func TestUnmake(t *testing.T) {
	n, dir := bound(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	unmake := func() (undo func() error) {
		t.Helper()
		undo, err := n.cfg.Bindings.Unmake(data)
		if err != nil {
			t.Fatal(err)
		}
		n.restart()
		if all := n.bindings(); len(all) != 1 || all[0].Made {
			t.Fatalf("the bindings are %v", all)
		}
		return undo
	}
	unmake()
	if _, err := n.resolve("data"); err != nil || !n.bindings()[0].Made {
		t.Errorf("%v; the bindings are %v", err, n.bindings())
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the content: %v", err)
	}
	unmake()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := n.resolve("data"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the directory isn't created again: %v", err)
	}

	undo, err := n.cfg.Bindings.Unmake(data)
	if err := errors.Join(err, undo()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	n.restart()
	if _, err := n.resolve("data"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after undo, the directory is created again: %v", err)
	}
}

// TestForget: the binding to a directory ends, after a restart too. One to a PersistentVolume stays, and none is no error.
func TestForget(t *testing.T) {
	n, _ := bound(t)
	file := filepath.Join(n.root, "bindings", fileName(data))
	if err := os.Remove(file); err != nil { // It may be gone already.
		t.Fatal(err)
	}
	for range 2 {
		if err := n.cfg.Bindings.Forget(data); err != nil || len(n.bindings()) != 0 {
			t.Errorf("%v; the bindings are %v", err, n.bindings())
		}
	}
	if undo, err := n.cfg.Bindings.Unmake(data); err != nil || undo() != nil || len(n.bindings()) != 0 {
		t.Errorf("Unmake without a binding: %v; the bindings are %v", err, n.bindings())
	}
	if _, err := n.cfg.Bindings.bind(Binding{Claim: data, Volume: "p1", Driver: "d", Handle: "h"}); err != nil {
		t.Fatal(err)
	}
	undo, err := n.cfg.Bindings.Unmake(data)
	if err := errors.Join(err, undo(), n.cfg.Bindings.Forget(data)); err != nil {
		t.Fatal(err)
	}
	n.restart()
	if all := n.bindings(); len(all) != 1 || all[0].Volume != "p1" || all[0].Made {
		t.Errorf("the bindings are %v", all)
	}
}

// TestForgetFails: a binding whose file can't be removed stays.
func TestForgetFails(t *testing.T) {
	n, _ := bound(t)
	file := filepath.Join(n.root, "bindings", fileName(data))
	// A directory with content isn't removed, by root either.
	if err := errors.Join(os.Remove(file), os.MkdirAll(filepath.Join(file, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := n.cfg.Bindings.Forget(data); err == nil || len(n.bindings()) != 1 {
		t.Errorf("%v; the bindings are %v", err, n.bindings())
	}
	if _, err := n.cfg.Bindings.Unmake(data); err == nil || !n.bindings()[0].Made {
		t.Errorf("Unmake: %v; the bindings are %v", err, n.bindings())
	}
}
