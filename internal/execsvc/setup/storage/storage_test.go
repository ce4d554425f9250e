package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/disktest"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// TestLifecycle: a volume is marked in use, awaited, staged and published; and all of that is undone in reverse order.
func TestLifecycle(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, newTruth(), nil)
		p := pod("u1", "h")
		n.mustSetUp(p)
		n.expect("mark name^h", "attached name^h", "stage h s0/dev/x", "publish h u1 p0")
		n.mustSetUp(p)
		n.expect()
		mounts, err := n.manager.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)
		want := filepath.Join(dir, "pods/u1/volumes/kubernetes.io~csi/pv-h/mount")
		if err != nil || len(mounts) != 1 || mounts[0].HostPath != want || mounts[0].ReadOnly {
			t.Errorf("mounts %+v (%v), want %s", mounts, err, want)
		}
		if stats, err := n.Stats(t.Context(), "u1", "h"); err != nil || stats.Used != 7 {
			t.Errorf("stats %+v (%v)", stats, err)
		}
		if names, complete := n.InUse(); len(names) != 1 || names[0] != "name^h" || !complete {
			t.Errorf("in use %v, complete %v", names, complete)
		}
		n.mustTearDown("u1")
		n.expect("unpublish h u1", "unstage h", "drop name^h")
		n.empty()
		if _, err := n.manager.Mounts(t.Context(), p, &p.Spec.Containers[0], nil); err == nil {
			t.Error("a container gets a volume that isn't mounted")
		}
		n.mustTearDown("u1") // It drops what Mounts resolved.
		n.empty()
	})
}

// TestSharedHandle: two PersistentVolumes with one handle are one volume: it is staged once, and unstaged after the
// last publication is gone.
func TestSharedHandle(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, newTruth(), nil)
		n.mustSetUp(pod("u1", "h.a"))
		n.expect("mark name^h", "attached name^h", "stage h s0/dev/x", "publish h u1 p0")
		n.mustSetUp(pod("u2", "h.b"))
		n.expect("publish h u2 p0")
		n.mustTearDown("u1")
		n.expect("unpublish h u1")
		n.mustTearDown("u2")
		n.expect("unpublish h u2", "unstage h", "drop name^h")
		n.empty()
	})
}

// TestReadOnly: a read-only claim is read-only in containers, also after a restart.
func TestReadOnly(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		p := pod("u1", "h")
		p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
		for range 2 {
			n := start(t, dir, d, nil)
			n.mustSetUp(p)
			mounts, err := n.manager.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)
			if err != nil || len(mounts) != 1 || !mounts[0].ReadOnly {
				t.Errorf("mounts %+v (%v), want a read-only one", mounts, err)
			}
			n.stop()
		}
	})
}

// TestHungDriver: a driver that never answers, and doesn't even end with its context, delays only its own pod. After it
// answers, nothing is left.
func TestHungDriver(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		d.answer(func(_ context.Context, call string) error {
			if strings.HasPrefix(call, "stage hung") {
				<-release
			}
			return nil
		})
		n := start(t, dir, d, nil)
		hung := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() { hung <- n.manager.SetUp(ctx, volume.Request{Pod: pod("u0", "hung")}) }()
		synctest.Wait()
		began := time.Now()
		for i := 1; i < 10; i++ {
			p := pod(fmt.Sprint("u", i), fmt.Sprint("h", i))
			n.mustSetUp(p)
			n.mustTearDown(p.UID)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the other pods took %v", took)
		}
		if err := <-hung; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "stage of volume hung has been running for 1m0s") {
			t.Errorf("the hung pod's error is %v", err)
		}
		// Without a deadline of the pod's worker, it is told at some time.
		if err := n.setUp(pod("u0", "hung")); !errors.Is(err, ErrBusy) {
			t.Errorf("the hung pod's error is %v, want ErrBusy", err)
		}
		if err := n.manager.TearDown(t.Context(), "u0"); err != nil {
			t.Errorf("the pod's volume was never published, and can't be torn down: %v", err)
		}
		close(release)
		n.empty()
	})
}

// TestUnanswered: a call without an answer is repeated with the same arguments, although others would be given now, also
// when no pod wants the volume any more and after a restart. Then it is undone.
func TestUnanswered(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		d.answer(hang("stage"))
		n := start(t, dir, d, nil)
		err := n.setUp(pod("u1", "h"))
		if want := `MountVolume.MountDevice failed for volume "pv-h" : there was no answer within 2m0s`; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
		n.claims.version = 1
		if err := n.setUp(pod("u1", "h")); err == nil {
			t.Error("the volume is set up")
		}
		n.expect("mark name^h", "attached name^h", "stage h s0/dev/x", "stage h s0/dev/x")
		n.mustTearDown("u1")
		time.Sleep(5 * time.Minute)
		n.stop()
		if calls := d.called(); len(calls) < 2 || calls[len(calls)-1] != "stage h s0/dev/x" {
			t.Errorf("without a pod: %v", calls)
		}

		n = start(t, dir, d, nil)
		time.Sleep(time.Second)
		d.answer(nil)
		time.Sleep(10 * time.Minute)
		n.expect("stage h s0/dev/x", "stage h s0/dev/x", "unstage h", "drop name^h")
		n.empty()
	})
}

// TestOutcomes: what an error of a driver means for the next call.
func TestOutcomes(t *testing.T) {
	for name, tc := range map[string]struct {
		out  Outcome
		want []string
	}{
		"final":     {Final, []string{"stage h s0/dev/x", "drop name^h"}},
		"uncertain": {Uncertain, []string{"stage h s0/dev/x", "unstage h", "drop name^h"}},
		"not sent":  {NotSent, []string{"stage h s0/dev/x", "drop name^h"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, d := t.TempDir(), newTruth()
			synctest.Test(t, func(t *testing.T) {
				bad := errors.New("bad")
				d.answer(func(_ context.Context, call string) error {
					if strings.HasPrefix(call, "stage") {
						return &Error{tc.out, bad}
					}
					return nil
				})
				n := start(t, dir, d, nil)
				if err := n.setUp(pod("u1", "h")); !errors.Is(err, bad) {
					t.Errorf("error %v", err)
				}
				n.mustTearDown("u1")
				n.empty()
				if got := withoutWaits(d.called())[1:]; !slices.Equal(got, tc.want) {
					t.Errorf("calls %q, want %q", got, tc.want)
				}
			})
		})
	}
}

// TestBackoff: a failing call is repeated, less and less often; calls of SetUp don't hurry it.
func TestBackoff(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		d.answer(func(_ context.Context, call string) error {
			if strings.HasPrefix(call, "publish") {
				return &Error{Final, errors.New("no")}
			}
			return nil
		})
		n := start(t, dir, d, nil)
		for range 6 {
			if err := n.setUp(pod("u1", "h")); err == nil || err.Error() != `MountVolume.SetUp failed for volume "pv-h" : no` {
				t.Errorf("error %v", err)
			}
		}
		synctest.Wait()
		d.mu.Lock()
		calls, times := d.calls[3:], d.times[3:]
		d.mu.Unlock()
		if len(calls) != 6 {
			t.Fatalf("calls %v, want 6", calls)
		}
		least := 500 * time.Millisecond
		for i := range calls[1:] {
			if pause := times[i+1].Sub(times[i]); pause < least || pause > 2*least {
				t.Errorf("the pause %d is %v, want %v to %v", i, pause, least, 2*least)
			}
			least *= 2
		}
		n.mustTearDown("u1")
		n.empty()
	})
}

// TestAbandonedWait: a wait for the API server ends when the pod doesn't need it any more.
func TestAbandonedWait(t *testing.T) {
	for _, word := range []string{"mark", "attached"} {
		t.Run(word, func(t *testing.T) {
			dir, d := t.TempDir(), newTruth()
			synctest.Test(t, func(t *testing.T) {
				d.answer(hang(word))
				n := start(t, dir, d, nil)
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				began := time.Now()
				if err := n.manager.SetUp(ctx, volume.Request{Pod: pod("u1", "h")}); !errors.Is(err, context.Canceled) {
					t.Errorf("error %v", err)
				}
				ctx, cancel = context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := n.manager.SetUp(ctx, volume.Request{Pod: pod("u1", "h")}); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v", err)
				}
				n.mustTearDown("u1")
				n.empty()
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

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

// TestNoAPIServer: on a standalone node, a volume that must be attached is an error, and no call is made.
func TestNoAPIServer(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, func(c *Config) { c.Attachments = nil })
		if err := n.setUp(pod("u1", "h")); !errors.Is(err, ErrNoAttachments) {
			t.Errorf("error %v", err)
		}
		n.mustTearDown("u1")
		n.expect()
		n.empty()
	})
}

// TestExpand: an expansion is one of the volume's operations, and one without an answer is repeated before anything
// else.
func TestExpand(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, nil)
		if err := n.Expand(t.Context(), "u1", "h", "1Gi"); err == nil {
			t.Error("a volume that isn't set up is expanded")
		}
		n.mustSetUp(pod("u1", "h"))
		n.truth.called()
		if err := n.Expand(t.Context(), "u1", "h", "1Gi"); err != nil {
			t.Error(err)
		}
		d.answer(hang("expand"))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		if err := n.Expand(ctx, "u1", "h", "2Gi"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		n.expect("expand h u1 1Gi", "expand h u1 2Gi", "expand h u1 2Gi")
		d.answer(nil)
		if err := n.manager.TearDown(t.Context(), "u1"); err != nil {
			n.mustTearDown("u1")
		}
		n.expect("expand h u1 2Gi", "unpublish h u1", "unstage h", "drop name^h")
		n.empty()
	})
}

// TestSideBySide: ten volumes whose driver takes 200 ms for each call are set up in the time of one, and torn down so.
func TestSideBySide(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		d.answer(func(_ context.Context, call string) error {
			if strings.Contains(call, "stage") || strings.Contains(call, "publish") {
				time.Sleep(200 * time.Millisecond)
			}
			return nil
		})
		n := start(t, dir, d, nil)
		var names []string
		for i := range 10 {
			names = append(names, fmt.Sprint("h", i))
		}
		began := time.Now()
		n.mustSetUp(pod("u1", names...))
		if took := time.Since(began); took > 400*time.Millisecond {
			t.Errorf("ten volumes take %v, want 400 ms", took)
		}
		began = time.Now()
		n.mustTearDown("u1")
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("the teardown of ten volumes takes %v, want 200 ms", took)
		}
		time.Sleep(time.Second)
		n.empty()
	})
}

// TestTwoVolumesOfOneClaim: two volumes of a pod with the same claim are one publication.
func TestTwoVolumesOfOneClaim(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		p := pod("u1", "h", "i")
		p.Spec.Volumes[1].PersistentVolumeClaim = p.Spec.Volumes[0].PersistentVolumeClaim
		for range 2 {
			n := start(t, dir, d, nil)
			n.mustSetUp(p)
			mounts, err := n.manager.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)
			if err != nil || len(mounts) != 2 || mounts[0].HostPath != mounts[1].HostPath {
				t.Errorf("mounts %v (%v)", mounts, err)
			}
			n.stop()
		}
		n := start(t, dir, d, nil)
		n.truth.called()
		n.mustTearDown("u1")
		n.expect("unpublish h u1", "unstage h", "drop name^h")
		n.empty()
	})
}

// TestBounds: a claim with huge attributes, or one volume too many, is an error.
func TestBounds(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, func(c *Config) { c.MaxVolumes = 1 })
		n.mustSetUp(pod("u1", "h"))
		if err := n.setUp(pod("u2", "i")); !errors.Is(err, ErrTooMany) {
			t.Errorf("error %v", err)
		}
		n.truth.called()
		for what, bad := range map[string]func(*Volume){
			"attributes":     func(v *Volume) { v.StageArgs = strings.Repeat("x", maxArgs+1) },
			"no text":        func(v *Volume) { v.PublishArgs = "\xff" },
			"no handle":      func(v *Volume) { v.Handle = "" },
			"no unique name": func(v *Volume) { v.UniqueName = "" },
			"plugin":         func(v *Volume) { v.Plugin = "kubernetes.io/empty-dir" },
			"name":           func(v *Volume) { v.Name = "../x" },
		} {
			n.cfg.Claims = resolver(func(pod *v1.Pod, spec *v1.Volume) (Volume, error) {
				v, err := n.claims.Resolve(t.Context(), pod, spec)
				bad(&v)
				return v, err
			})
			if err := n.setUp(pod("u3", "h")); err == nil {
				t.Errorf("%s: the volume is set up", what)
			}
		}
		n.expect()
	})
}

// resolver is a function as Claims.
type resolver func(*v1.Pod, *v1.Volume) (Volume, error)

// Resolve is part of Claims.
func (r resolver) Resolve(_ context.Context, pod *v1.Pod, spec *v1.Volume) (Volume, error) {
	return r(pod, spec)
}
