package podmount

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/roottest"
)

// TestAnswered: what a helper's error means for the volume. Only a helper that can't be ended may still do something.
func TestAnswered(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want storage.Outcome
	}{
		"nothing has changed": {&foreign.Error{Text: "mount failed", Unchanged: true}, storage.Final},
		"a failed unmount":    {&foreign.Error{Text: "busy", Errno: unix.EBUSY}, storage.Uncertain},
		"state D":             {&foreign.AbandonedError{Cause: context.DeadlineExceeded}, storage.Unanswered},
		"killed":              {&foreign.AbandonedError{Cause: context.DeadlineExceeded, Ended: true}, storage.Uncertain},
		"too many":            {&foreign.BusyError{Volume: "v", PIDs: []int{1}}, storage.NotSent},
		"an earlier mount":    {&foreign.BusyError{Volume: "v", PIDs: []int{1}, Target: "/t"}, storage.Unrepeatable},
		"stopping":            {foreign.ErrClosed, storage.NotSent},
		"no answer":           {errors.New("it ended without an answer"), storage.Uncertain},
	} {
		if err := Answered(tc.err); storage.OutcomeOf(err) != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s: outcome %d of %v, want %d", name, storage.OutcomeOf(err), err, tc.want)
		}
	}
	for _, err := range []error{Answered(nil), Undone(nil)} {
		if err != nil {
			t.Error(err)
		}
	}
	// What an unmount, or the release of a device, may have to do again has been done once.
	late := &foreign.BusyError{Volume: "v", PIDs: []int{1}, Target: "podstream-tag"}
	if err := Undone(late); storage.OutcomeOf(err) != storage.Uncertain || !errors.Is(err, late) {
		t.Errorf("outcome %d of %v", storage.OutcomeOf(err), err)
	}
	if err := Undone(foreign.ErrClosed); storage.OutcomeOf(err) != storage.NotSent {
		t.Errorf("outcome %d of %v", storage.OutcomeOf(err), err)
	}
}

// TestForced: an unmount is forced only after one that had no answer.
func TestForced(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{&foreign.AbandonedError{Cause: context.DeadlineExceeded}, true},
		{&foreign.AbandonedError{Cause: context.DeadlineExceeded, Ended: true}, true},
		{&foreign.BusyError{Volume: "v", PIDs: []int{1}}, false},
		{&foreign.Error{Text: "busy", Errno: unix.EBUSY}, false},
		{foreign.ErrClosed, false},
		{nil, false},
	} {
		if got := hangs(tc.err); got != tc.want {
			t.Errorf("after %v: %v; want %v", tc.err, got, tc.want)
		}
	}
}

// TestMakeAndRemove: directories are made where no link leads, and only an empty one that isn't a mount point is removed.
func TestMakeAndRemove(t *testing.T) {
	base := t.TempDir()
	for range 2 {
		if err := Make(base, "a/b/c"); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a", filepath.Join(base, "link")); err != nil {
		t.Fatal(err)
	}
	if err := Make(base, "link/new"); err == nil {
		t.Error("a link is followed")
	}
	if err := Remove(base, "link/b/c"); err == nil {
		t.Error("a link is followed")
	}
	if err := Remove(base, "a/b"); !errors.Is(err, unix.ENOTEMPTY) {
		t.Errorf("a directory that isn't empty: %v", err)
	}
	for range 2 {
		if err := Remove(base, "a/b/c"); err != nil {
			t.Fatal(err)
		}
	}
	if err := Remove(base, "x/y/z"); err != nil {
		t.Errorf("without its parent: %v", err)
	}
}

// TestMountPointStays: a directory on which something is mounted isn't removed, and nothing is made below it.
func TestMountPointStays(t *testing.T) {
	roottest.Need(t, "mounting")
	base := t.TempDir()
	if err := Make(base, "a/b"); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(base, "a/b")
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	if err := Remove(base, "a/b"); !errors.Is(err, unix.EBUSY) {
		t.Errorf("it is removed: %v", err)
	}
	if err := Make(base, "a/b"); err != nil {
		t.Errorf("a mount point as the last name: %v", err)
	}
	if err := Make(base, "a/b/c"); err == nil {
		t.Error("a directory is made on another mount")
	}
}

// TestWrongDirectory: nothing is mounted in a directory that isn't the volume's.
func TestWrongDirectory(t *testing.T) {
	base := t.TempDir()
	p := storage.Publishing{UID: "u", Plugin: "kubernetes.io/nfs", Name: "v", Dir: filepath.Join(base, "u/volumes/kubernetes.io~nfs/v")}
	if pods, name, err := split(&p); err != nil || pods != base || filepath.Join(pods, name) != p.Dir {
		t.Errorf("%q, %q, %v", pods, name, err)
	}
	for _, change := range []func(p *storage.Publishing){
		func(p *storage.Publishing) { p.Dir = base },
		func(p *storage.Publishing) { p.Name = "other" },
		func(p *storage.Publishing) { p.UID = "../u" },
		func(p *storage.Publishing) { p.Name, p.Dir = "..", filepath.Join(base, "u/volumes") },
		func(p *storage.Publishing) {
			p.Name, p.Dir = "a/b", filepath.Join(base, "u/volumes/kubernetes.io~nfs/a/b")
		},
	} {
		wrong := p
		change(&wrong)
		if err := Mount(t.Context(), nil, "v", &wrong, foreign.Mount{}); storage.OutcomeOf(err) != storage.NotSent {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

// TestOptions: options are those of the kubelet.
func TestOptions(t *testing.T) {
	pv := &v1.PersistentVolume{}
	pv.Spec.MountOptions = []string{"vers=4", "hard", "hard"}
	if got, want := Options(pv, "ro"), []string{"hard", "ro", "vers=4"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	pv.Annotations = map[string]string{v1.MountOptionAnnotation: "soft,,a"}
	if got, want := Options(pv), []string{"a", "soft"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestStatsLimit: the usage of a file system that doesn't answer is given up soon, and not only with the caller.
func TestStatsLimit(t *testing.T) {
	was := statsLimit
	statsLimit = 0
	defer func() { statsLimit = was }()
	helpers := foreign.New(foreign.Config{})
	defer helpers.Close()
	if _, err := Stats(t.Context(), helpers, "server:/share", t.TempDir()); err == nil || !strings.Contains(err.Error(), "it took longer than 0s") {
		t.Errorf("error %v", err)
	}
}
