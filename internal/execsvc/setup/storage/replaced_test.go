package storage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
)

// TestReplaced: a pod whose arguments aren't those with which the volume is staged, as its PersistentVolume was replaced, gets it after the
// pods that use it are gone: it is unstaged, and staged with the new ones. While one of the pods that wait fits, it stays staged.
func TestReplaced(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, nil)
		n.mustSetUp(pod("u1", "h"))
		n.expect("mark name^h", "attached name^h", "stage h s0/dev/x", "publish h u1 p0")
		replaced := &Error{Unrepeatable, errors.New("replaced")}
		d.answer(func(_ context.Context, call string) error {
			if call == "publish h u2 p2" && d.isPublishedFor("h", "u1") {
				return replaced
			}
			return nil
		})
		n.claims.version = 2
		if err := n.setUp(pod("u2", "h")); !errors.Is(err, replaced) {
			t.Fatalf("error %v", err)
		}
		n.expect("publish h u2 p2")
		n.mustTearDown("u1")
		n.mustSetUp(pod("u2", "h"))
		n.expect("unpublish h u1", "unstage h", "attached name^h", "stage h s2/dev/x", "publish h u2 p2")
		n.mustTearDown("u2")
		n.empty()

		// The publication of one that fits goes on.
		d.called()
		d.answer(func(_ context.Context, call string) error {
			if strings.HasPrefix(call, "publish h u3") {
				return &Error{NotSent, errors.New("no")}
			}
			return nil
		})
		if err := n.setUp(pod("u3", "h")); err == nil {
			t.Fatal("it is set up")
		}
		d.called()
		n.claims.version = 3
		n.mustSetUp(pod("u4", "h"))
		n.mustTearDown("u4")
		for _, call := range d.called() {
			if strings.HasPrefix(call, "unstage") {
				t.Error("it is unstaged, and a pod that fits waits for it")
			}
		}
		n.mustTearDown("u3")
		n.empty()
	})
}

// perPod resolves to the StageArgs in the pod's annotation, or to some that depend on readOnly.
type perPod struct {
	*claims
	exact bool
}

// Resolve is part of Claims.
func (c perPod) Resolve(ctx context.Context, p *v1.Pod, spec *v1.Volume) (Volume, error) {
	v, err := c.claims.Resolve(ctx, p, spec)
	v.StageArgs, v.Exact = fmt.Sprint("s-", v.ReadOnly), c.exact
	if a := p.Annotations["args"]; a != "" {
		v.StageArgs = a
	}
	return v, err
}

// podWith returns a pod with these StageArgs.
func podWith(uid, args string) *v1.Pod {
	p := pod(uid, "h")
	p.Annotations = map[string]string{"args": args}
	return p
}

// TestReplacedRefused: if the driver refuses to unstage a volume, a pod that needs it staged in another way gets it as it is, unless it can't
// use it so. Then it waits.
func TestReplacedRefused(t *testing.T) {
	for _, out := range []Outcome{Final, Uncertain} {
		for _, exact := range []bool{false, true} {
			dir, d := t.TempDir(), newTruth()
			synctest.Test(t, func(t *testing.T) {
				n := start(t, dir, d, func(c *Config) { c.Claims = perPod{&claims{}, exact} })
				n.mustSetUp(podWith("u1", "a"))
				refuse := func(_ context.Context, call string) error {
					if call == "unstage h" {
						return &Error{out, errors.New("refused")}
					}
					return nil
				}
				d.answer(refuse)
				n.mustTearDown("u1")
				synctest.Wait()
				d.called()
				if err := n.setUp(podWith("u2", "b")); (err != nil) != exact {
					t.Errorf("exact: %v: %v", exact, err)
				}
				calls := strings.Join(d.called(), ", ")
				if staged := strings.Contains(calls, "stage h a/dev/x, publish h u2 p0"); staged == exact || strings.Contains(calls, "stage h b") {
					t.Errorf("exact: %v: calls %s", exact, calls)
				}
				d.answer(nil)
				n.mustSetUp(podWith("u2", "b"))
				if calls := strings.Join(d.called(), ", "); exact && !strings.HasSuffix(calls, "unstage h, attached name^h, stage h b/dev/x, publish h u2 p0") {
					t.Errorf("calls %s", calls)
				}
				n.mustTearDown("u2")
				time.Sleep(10 * time.Minute)
				n.empty()
				// It isn't remembered.
				d.called()
				n.mustSetUp(podWith("u3", "a"))
				n.mustTearDown("u3")
				n.mustSetUp(podWith("u4", "b"))
				if calls := strings.Join(d.called(), ", "); !strings.Contains(calls, "stage h b/dev/x") {
					t.Errorf("calls %s", calls)
				}
				n.mustTearDown("u4")
				n.empty()
			})
		}
	}
}

// TestReplacedUnrepeatable: a stage without an answer that can't be repeated is given up if no pod wants it so, though one waits.
func TestReplacedUnrepeatable(t *testing.T) {
	for name, gap := range map[string]time.Duration{"a Deployment": -time.Minute, "a StatefulSet": time.Second} {
		dir, d := t.TempDir(), newTruth()
		synctest.Test(t, func(t *testing.T) {
			n := start(t, dir, d, nil)
			d.answer(hang("stage h s0"))
			if err := n.setUp(pod("u1", "h")); err == nil {
				t.Fatal("it is set up")
			}
			d.answer(func(_ context.Context, call string) error {
				if strings.HasPrefix(call, "stage h s0") {
					return &Error{Unrepeatable, errors.New("the disk is gone")}
				}
				return nil
			})
			time.Sleep(5 * time.Minute)
			n.claims.version = 2 // The PersistentVolume is replaced.
			if gap < 0 {
				_ = n.setUp(pod("u2", "h"))
			}
			n.mustTearDown("u1")
			time.Sleep(max(gap, 0))
			d.called()
			began := time.Now()
			for n.setUp(pod("u2", "h")) != nil {
				if time.Since(began) > 10*time.Minute {
					t.Fatalf("%s: it isn't set up: %q", name, d.called())
				}
				time.Sleep(time.Second)
			}
			n.mustTearDown("u2")
			n.empty()
		})
	}
}

// TestNoStageAnyMore: a volume of a driver that has come to stage nothing isn't unstaged for the pods that wait.
func TestNoStageAnyMore(t *testing.T) {
	s := newState(record.Key{Driver: "d", Handle: "h"})
	s.Traits, s.Stage = record.Traits{Backend: "b", Stages: true}, record.Call{Phase: record.Done, Args: "a"}
	s.setWant(record.Target{UID: "u", Plugin: "p", Name: "n"}, want{volume: Volume{Key: s.Key, Traits: record.Traits{Backend: "b"}}})
	if ops := candidates(&s); len(ops) != 1 || ops[0].kind != publish {
		t.Errorf("%v", ops)
	}
}

// TestClaimTwice: a pod that has a claim twice, and writes to it by one of both, has one mount for them that can be written to.
func TestClaimTwice(t *testing.T) {
	for _, reads := range []int{0, 1} {
		dir, d := t.TempDir(), newTruth()
		synctest.Test(t, func(t *testing.T) {
			n := start(t, dir, d, func(c *Config) { c.Claims = perPod{&claims{}, true} })
			p := pod("u1", "h", "h.b")
			p.Spec.Volumes[1].PersistentVolumeClaim.ClaimName = "h"
			p.Spec.Volumes[reads].PersistentVolumeClaim.ReadOnly = true
			// The one that only reads is first.
			first := volume.Volume{Pod: p, UID: p.UID, Spec: &p.Spec.Volumes[reads], Dir: filepath.Join(dir, "pods/u1/volumes/kubernetes.io~csi/pv-h")}
			if err := n.SetUp(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			n.mustSetUp(p)
			n.expect("mark name^h", "attached name^h", "stage h s-false/dev/x", "publish h u1 p0")
			for i := range p.Spec.Volumes {
				if got := n.Source(volume.Volume{Pod: p, UID: p.UID, Spec: &p.Spec.Volumes[i], Dir: "/d"}).ReadOnly; got != (i == reads) {
					t.Errorf("volume %d: read-only: %v", i, got)
				}
			}
			n.mustTearDown("u1")
			n.empty()
		})
	}
}

// TestNotRefused: a driver that can't be asked to unstage a volume hasn't refused it.
func TestNotRefused(t *testing.T) {
	for out, refused := range map[Outcome]bool{Final: true, Uncertain: true, NotSent: false, Unanswered: false, succeeded: false} {
		s := newState(record.Key{Driver: "d", Handle: "h"})
		s.Traits, s.Stage = record.Traits{Backend: "b", Stages: true}, record.Call{Phase: record.Unsure, Args: "a"}
		s.setWant(record.Target{UID: "u", Plugin: "p", Name: "n"}, want{volume: Volume{Key: s.Key, Traits: s.Traits, StageArgs: "b"}})
		op := candidates(&s)[0]
		was := call(&s, op)
		begin(&s, op)
		finish(&s, op, was, out, nil)
		if op.kind != unstage || s.refused != refused {
			t.Errorf("outcome %d of %v: refused: %v", out, op, s.refused)
		}
	}
}

// TestReplacedAfterFailure: a pod whose stage always fails keeps no other one waiting that needs it done in another way.
func TestReplacedAfterFailure(t *testing.T) {
	for _, out := range []Outcome{Final, NotSent, Unrepeatable} {
		dir, d := t.TempDir(), newTruth()
		synctest.Test(t, func(t *testing.T) {
			n := start(t, dir, d, func(c *Config) { c.Claims = perPod{&claims{}, true} })
			d.answer(func(_ context.Context, call string) error {
				if strings.HasPrefix(call, "stage h bad") {
					return &Error{out, errors.New("no such Secret")}
				}
				return nil
			})
			for range 5 {
				if n.setUp(podWith("u1", "bad")) == nil {
					t.Fatal("it is set up")
				}
			}
			began := time.Now()
			for n.setUp(podWith("u2", "good")) != nil {
				if time.Since(began) > 10*time.Minute {
					t.Fatalf("outcome %d: the other one isn't set up", out)
				}
				time.Sleep(time.Second)
			}
			n.mustTearDown("u1")
			n.mustTearDown("u2")
			time.Sleep(time.Hour)
			n.empty()
		})
	}
}
