package csivolume

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/roottest"
)

// TestVolDataIsNotBelieved: whatever is in the place of vol_data.json is replaced as a whole, not read to its end, and
// not followed.
func TestVolDataIsNotBelieved(t *testing.T) {
	roottest.Need(t, "mount")
	kernels(t, func(t *testing.T) {
		for name, put := range map[string]func(t *testing.T, path string) error{
			"1 GB": func(t *testing.T, path string) error {
				return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<30))
			},
			"another volume's": func(_ *testing.T, path string) error {
				return os.WriteFile(path, []byte(`{"driverName":"other","volumeHandle":"other"}`), 0o600)
			},
			"a link": func(t *testing.T, path string) error {
				return os.Symlink(filepath.Join(outside(t), "vol_data.json"), path)
			},
			"a pipe": func(_ *testing.T, path string) error { return unix.Mkfifo(path, 0o600) },
			"a draft that is a link": func(t *testing.T, path string) error {
				return os.Symlink(filepath.Join(outside(t), "vol_data.json"), filepath.Join(filepath.Dir(path), draftName))
			},
		} {
			t.Run(name, func(t *testing.T) {
				n := newBench(t)
				_, _, p := n.resolved(pod())
				path := filepath.Join(n.dir(), "vol_data.json")
				must(t, os.MkdirAll(n.dir(), 0o750), put(t, path), n.Publish(t.Context(), p))
				if got := data(t, n.dir()); got["volumeHandle"] != handle || got["driverName"] != driverName {
					t.Errorf("it has %v", got)
				}
				must(t, os.Remove(path), put(t, path), n.Unpublish(t.Context(), p))
				n.driver.taken()
				isGone(t, path, filepath.Join(n.dir(), draftName), n.mount())
			})
		}
	})
}

// TestVolDataStays: a call that is repeated doesn't touch the file, which a driver may be reading.
func TestVolDataStays(t *testing.T) {
	n := newBench(t)
	_, _, p := n.resolved(pod())
	n.driver.does(func(r proto.Message) error {
		if r, ok := r.(*csipb.NodePublishVolumeRequest); ok {
			return os.MkdirAll(r.GetTargetPath(), 0o750)
		}
		return nil
	})
	must(t, n.Publish(t.Context(), p))
	before, err := os.Stat(filepath.Join(n.dir(), "vol_data.json"))
	must(t, err, n.Publish(t.Context(), p))
	after, err := os.Stat(filepath.Join(n.dir(), "vol_data.json"))
	must(t, err)
	if !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		t.Error("the file was written again")
	}
	// A directory in its place can't be replaced: nothing is sent.
	must(t, os.Remove(filepath.Join(n.dir(), "vol_data.json")), os.Mkdir(filepath.Join(n.dir(), "vol_data.json"), 0o700))
	n.driver.taken()
	n.isNotSent(n.Publish(t.Context(), p))
}
