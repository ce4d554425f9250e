package apiexpansion

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstream/podstream/internal/execsvc/cluster/apivolumes"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/setup/csi"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

const broken = `a Warning ` + events.VolumeResizeFailed + ` NodeExpandVolume.NodeExpandVolume failed for volume "pv" : `

// pending is a claim whose node must expand the volume.
func pending(c *v1.PersistentVolumeClaim) {
	allocated(v1.PersistentVolumeClaimNodeResizePending, "2Gi")(c)
	c.Status.Conditions = []v1.PersistentVolumeClaimCondition{{Type: v1.PersistentVolumeClaimFileSystemResizePending, Status: v1.ConditionTrue}}
}

// refusal is a driver's answer.
func refusal(code codes.Code, out storage.Outcome) func(context.Context) error {
	return func(context.Context) error {
		return &storage.Error{Outcome: out, Err: &csi.Error{Code: code, Message: "sorry", Answered: true}}
	}
}

// grow has the user and the resizer change the claim and its volume.
func (w *world) grow(size string) {
	w.set(func() {
		claim, pv := w.claim.DeepCopy(), w.pv.DeepCopy()
		claim.Spec.Resources.Requests[v1.ResourceStorage], pv.Spec.Capacity[v1.ResourceStorage] = resource.MustParse(size), resource.MustParse(size)
		allocated(v1.PersistentVolumeClaimNodeResizePending, size)(claim)
		w.claim, w.pv = claim, pv
	})
}

// TestSynced: the volume of a running pod is expanded after its PersistentVolume has grown, once for all its pods, and nothing
// waits for the driver. A failure is an event, and is tried again with growing pauses.
func TestSynced(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.sync("a")
		w.expect(0)
		w.grow("4Gi")
		answer := make(chan error)
		w.driver = func(ctx context.Context) error {
			select {
			case err := <-answer:
				return err
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		for range 3 {
			w.sync("a")
			w.sync("b")
		}
		w.expect(1)
		answer <- refusal(codes.Unavailable, storage.Uncertain)(t.Context())
		w.expect(0, broken+"rpc error: code = Unavailable desc = sorry")
		w.has("2Gi", v1.PersistentVolumeClaimNodeResizeInProgress, 0)
		w.sync("a")
		w.expect(0)
		time.Sleep(firstPause)
		w.sync("a")
		answer <- nil
		w.expect(1, "a"+done, "data"+done)
		w.has("4Gi", "", 0)
		w.sync("a")
		w.expect(0)
	}, has("2Gi"))
}

// TestInfeasible: after an answer that no repetition changes, the claim says so, and the node gives up: the resizer may
// try another size.
func TestInfeasible(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.driver = refusal(codes.OutOfRange, storage.Final)
		w.sync("a")
		w.has("1Gi", v1.PersistentVolumeClaimNodeResizeInfeasible, 2)
		w.expect(1, broken+"rpc error: code = OutOfRange desc = sorry")
		for range 5 {
			time.Sleep(lastPause)
			w.sync("a")
		}
		w.expect(0)
		w.driver = nil
		w.grow("2Gi")
		w.sync("a")
		w.expect(1, "a"+done, "data"+done)
	}, pending)
}

// TestShared: a volume that another node has expanded is expanded here too, if it is shared, and the claim isn't written.
func TestShared(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.sync("a")
		w.set(func() {
			w.claim, w.pv = claimOf(shared, allocated("", "4Gi"), has("4Gi"))
			w.pv.Spec.Capacity[v1.ResourceStorage] = resource.MustParse("4Gi")
		})
		w.sync("a")
		w.expect(1, "a"+done, "data"+done)
		w.sync("a")
		w.expect(0)
		if w.claim.ResourceVersion != "7" {
			t.Error("the claim is written")
		}
	}, shared, allocated("", "2Gi"), has("2Gi"))
}

// TestConflict: a claim that has changed since it was read isn't overwritten, and the driver isn't called for it.
func TestConflict(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.cfg.Claims = outdated{w}
		if err := w.mount("a"); err == nil || !strings.Contains(err.Error(), "the object has been modified") {
			t.Errorf("the error is %v", err)
		}
		w.expect(0)
		w.has("1Gi", v1.PersistentVolumeClaimNodeResizePending, 1)
	}, pending)
}

// outdated is a world whose claim changes after each reading.
type outdated struct{ *world }

// Read is part of Claims.
func (o outdated) Read(ctx context.Context, p *v1.Pod, spec *v1.Volume) (apivolumes.Claimed, error) {
	c, err := o.world.Read(ctx, p, spec)
	o.set(func() {
		o.claim = o.claim.DeepCopy()
		o.claim.ResourceVersion += "1"
	})
	return c, err
}

// TestManyPods: pods of one volume that start at the same time have it expanded once; a pod that is gone is forgotten.
func TestManyPods(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var group sync.WaitGroup
		w.driver = func(context.Context) error { time.Sleep(time.Second); return nil }
		for _, name := range []string{"a", "b", "c"} {
			group.Go(func() {
				if err := w.mount(name); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		w.set(func() {
			if len(w.calls) != 1 {
				t.Errorf("%d calls", len(w.calls))
			}
		})
		for _, name := range []string{"a", "b", "c"} {
			p, _ := pod(name)
			w.Drop(p.UID)
		}
		if len(w.volumes) > 0 {
			t.Errorf("left: %v", w.volumes)
		}
	}, pending)
}

// TestClose: a driver that doesn't answer keeps neither Close nor a pod that ends.
func TestClose(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.driver = func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		w.sync("a")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := errors.New("the pod ends")
		go func() {
			synctest.Wait()
			cancel(ended)
		}()
		p, spec := pod("b")
		if err := w.Mounted(ctx, p, spec); !errors.Is(err, ended) {
			t.Errorf("the error is %v", err)
		}
		w.Close()
		w.expect(1)
	}, pending)
}
