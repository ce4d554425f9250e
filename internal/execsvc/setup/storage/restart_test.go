package storage

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/disktest"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// TestRestart: a published volume is found again without the API server and without its claim, and no call is made. It
// is held until its pod is torn down.
func TestRestart(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, nil)
		p := pod("u1", "h")
		n.mustSetUp(p)
		n.stop()
		d.called()

		n = start(t, dir, d, func(c *Config) { c.Attachments = nil })
		n.claims.err = errors.New("no API server")
		n.mustSetUp(p)
		if mounts, err := n.manager.Mounts(t.Context(), p, &p.Spec.Containers[0], nil); err != nil || len(mounts) != 1 {
			t.Errorf("mounts %v (%v)", mounts, err)
		}
		time.Sleep(time.Hour)
		n.expect()
		if pods, err := n.manager.PodsOnDisk(); err != nil || len(pods) != 1 {
			t.Errorf("pods %v (%v), want u1", pods, err)
		}
		n.stop()

		// The pod's directory is lost: the volume is found by its record.
		if err := os.RemoveAll(filepath.Join(dir, "pods")); err != nil {
			t.Fatal(err)
		}
		n = start(t, dir, d, nil)
		if pods, err := n.manager.PodsOnDisk(); err != nil || len(pods) != 1 {
			t.Errorf("pods %v (%v), want u1", pods, err)
		}
		n.mustTearDown("u1")
		n.expect("unpublish h u1", "unstage h", "drop name^h")
		n.empty()
	})
}

// TestReboot: what an earlier boot had mounted isn't believed. It is undone, and then made again with new arguments.
func TestReboot(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, nil)
		n.mustSetUp(pod("u1", "h"))
		n.stop()
		d.called()
		d.staged, d.published = map[string]bool{}, map[string]bool{}

		n = start(t, dir, d, func(c *Config) { c.Boot = "boot2" })
		n.claims.version = 2
		n.mustSetUp(pod("u1", "h"))
		calls := strings.Join(d.called(), ", ")
		if !strings.HasPrefix(calls, "unpublish h u1, unstage h, ") || !strings.HasSuffix(calls, "attached name^h, stage h s2/dev/x, publish h u1 p2") {
			t.Errorf("calls %s", calls)
		}
		n.mustTearDown("u1")
		n.empty()
	})
}

// TestDamagedRecord: a volume with a damaged record isn't used, and nothing leaves volumesInUse. Others are.
func TestDamagedRecord(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, nil)
		n.mustSetUp(pod("u1", "h"))
		n.stop()
		d.called()
		files, err := filepath.Glob(filepath.Join(dir, "volumes/*.json"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		if err := os.WriteFile(files[0], []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		n = start(t, dir, d, nil)
		if err := n.setUp(pod("u2", "h")); !errors.Is(err, record.ErrKept) || !strings.Contains(err.Error(), files[0]) {
			t.Errorf("error %v, want ErrKept with the file", err)
		}
		if _, complete := n.InUse(); complete {
			t.Error("volumesInUse is complete, although a record is damaged")
		}
		if kept := n.Kept(); len(kept) != 1 || kept[0].File != files[0] {
			t.Errorf("kept %v", kept)
		}
		if !strings.Contains(n.logs.String(), files[0]) {
			t.Errorf("the log doesn't name the file: %s", n.logs.String())
		}
		n.expect()
		n.mustSetUp(pod("u3", "other"))
		n.mustTearDown("u3")
		n.expect("mark name^other", "attached name^other", "stage other s0/dev/x", "publish other u3 p0", "unpublish other u3", "unstage other", "drop name^other")
		if data, err := os.ReadFile(files[0]); err != nil || string(data) != "{" {
			t.Errorf("the damaged record is %q (%v)", data, err)
		}
	})
}

// TestUnreadableRecords: while the records can't be read, no volume is touched.
func TestUnreadableRecords(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		records, err := record.Open(filepath.Join(dir, "volumes"), "agent")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "volumes"), filepath.Join(dir, "away")); err != nil {
			t.Fatal(err)
		}
		s := New(Config{
			Records: records, Agent: "agent", Boot: "boot", Backends: map[string]Backend{"b": d}, Claims: &claims{}, Log: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Run(ctx)
		}()
		m := volume.New(volume.Config{PodDirs: kubeletdir.Pods{Current: filepath.Join(dir, "pods")}, Plugins: []volume.Plugin{s}})
		short, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		if err := m.SetUp(short, volume.Request{Pod: pod("u1", "h")}); !errors.Is(err, context.DeadlineExceeded) || len(d.called()) > 0 {
			t.Errorf("error %v", err)
		}
		if err := os.Rename(filepath.Join(dir, "away"), filepath.Join(dir, "volumes")); err != nil {
			t.Fatal(err)
		}
		<-s.Reconstructed()
		cancel()
		<-ended
		if err := m.SetUp(t.Context(), volume.Request{Pod: pod("u1", "h")}); !errors.Is(err, ErrStopped) {
			t.Errorf("error %v after Run has ended", err)
		}
	})
}

// TestFullDisk: without space for the record, no call is made. It is, when there is space again.
func TestFullDisk(t *testing.T) {
	dir, d := disktest.Small(t), newTruth()
	pods := t.TempDir()
	if err := os.Symlink(pods, filepath.Join(dir, "pods")); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, nil)
		free := disktest.FillUp(t, dir)
		if err := n.setUp(pod("u1", "h")); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("error %v, want ENOSPC", err)
		}
		n.expect()
		free()
		n.mustSetUp(pod("u1", "h"))
		free = disktest.FillUp(t, dir)
		n.truth.called()
		err := n.manager.TearDown(t.Context(), "u1")
		free()
		if err != nil {
			n.mustTearDown("u1")
		}
		time.Sleep(10 * time.Minute)
		n.expect("unpublish h u1", "unstage h", "drop name^h")
		n.stop()
	})
}

// TestOtherKubeletDir: after a restart with another --kubelet-dir, a container gets its volume where it was published. The runtime would
// create an empty directory otherwise.
func TestOtherKubeletDir(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, nil)
		p := pod("u1", "h")
		n.mustSetUp(p)
		before, err := n.manager.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)
		if err != nil {
			t.Fatal(err)
		}
		n.stop()
		n = start(t, dir, d, nil)
		n.manager = volume.New(volume.Config{
			PodDirs: kubeletdir.Pods{Current: filepath.Join(dir, "other")}, Plugins: []volume.Plugin{n.Storage}, Mounter: mount.NewFakeMounter(nil),
		})
		n.mustSetUp(p)
		after, err := n.manager.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)
		if err != nil || after[0].HostPath != before[0].HostPath {
			t.Errorf("the container gets %s (%v), and its volume is mounted at %s", after[0].HostPath, err, before[0].HostPath)
		}
		n.mustTearDown("u1")
		if is := d.publications("h"); is != 0 {
			t.Error("the volume is still published")
		}
	})
}
