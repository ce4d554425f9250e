package storage

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// grouped are claims whose PersistentVolumes give a group: the number of bytes of the claim's name. "h" gives none.
type grouped struct{ claims }

// Resolve is part of Claims.
func (g *grouped) Resolve(ctx context.Context, pod *v1.Pod, spec *v1.Volume) (Volume, error) {
	v, err := g.claims.Resolve(ctx, pod, spec)
	if n := int64(len(spec.PersistentVolumeClaim.ClaimName)); n > 1 {
		v.Group = &n
	}
	return v, err
}

// TestGroups: a pod has the groups of its published volumes, each once, also after a restart, when no claim can be read.
func TestGroups(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		with := func(c *Config) { c.Claims = &grouped{} }
		n := start(t, dir, d, with)
		want := func(uid string, want ...int64) {
			t.Helper()
			if got := n.Groups(pod(uid).UID); !slices.Equal(got, want) {
				t.Errorf("the groups of %s are %v; want %v", uid, got, want)
			}
		}
		want("u1")
		n.mustSetUp(pod("u1", "hhh", "hh", "kk", "h"))
		n.mustSetUp(pod("u2", "h"))
		want("u1", 2, 3)
		want("u2")
		n.stop()
		n = start(t, dir, d, with)
		want("u1", 2, 3)
		n.mustTearDown("u1")
		want("u1")
		n.stop()
	})
}

// inGroup returns a pod with an fsGroup and the volume "h".
func inGroup(uid string, group int64) *v1.Pod {
	p := pod(uid, "h")
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group}
	return p
}

// TestOwedChange: a change to a pod's fsGroup that fails, or that a restart ends, is repeated until it succeeds, whichever pods have the volume
// meanwhile. It keeps only pods waiting that need it. Pods that come later, with whatever group, take the volume as it is.
func TestOwedChange(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		failing := func(call string) bool {
			return strings.HasPrefix(call, "publish h same") || strings.HasPrefix(call, "publish h first")
		}
		d.answer(func(_ context.Context, call string) error {
			if failing(call) {
				return &Error{Uncertain, errors.New("applyFSGroup failed")}
			}
			return nil
		})
		n := start(t, dir, d, nil)
		// The change of a pod fails; those that don't need it are published.
		mustWait := func(p *v1.Pod) {
			t.Helper()
			if err := n.setUp(p); err == nil || !strings.Contains(err.Error(), "applyFSGroup failed") {
				t.Errorf("error %v", err)
			}
		}
		first, same, other := inGroup("first", 1), inGroup("same", 1), inGroup("other", 2)
		mustWait(first)
		n.mustSetUp(pod("none", "h"))
		n.mustSetUp(other)
		mustWait(same)
		n.stop()
		calls := slices.Compact(d.called()[3:])
		if want := "publish h none p0, publish h other p0 keeps"; !strings.Contains(strings.Join(calls, ", "), want) {
			t.Errorf("calls %q, want %s", calls, want)
		}

		n = start(t, dir, d, nil)
		time.Sleep(10 * time.Minute)
		mustWait(first)
		for _, call := range d.called() {
			if !failing(call) || strings.HasSuffix(call, "keeps") {
				t.Errorf("%s after a restart", call)
			}
		}
		d.answer(nil)
		time.Sleep(10 * time.Minute)
		n.mustSetUp(first)
		n.mustSetUp(same)
		calls = d.called()
		slices.Sort(calls)
		if want := []string{"publish h first p0", "publish h same p0"}; !slices.Equal(calls, want) {
			t.Errorf("calls %q, want %q", calls, want)
		}
		n.mustSetUp(inGroup("late", 1))
		n.expect("publish h late p0 keeps")
		for _, uid := range []string{"first", "same", "other", "none", "late"} {
			n.mustTearDown(pod(uid).UID)
		}
		d.called()
		n.mustSetUp(inGroup("last", 3))
		if calls := d.called(); calls[len(calls)-1] != "publish h last p0" {
			t.Errorf("calls %q", calls)
		}
		n.mustTearDown("last")
		n.empty()
	})
}

// TestOwedChangeOfDeletedPod: a change that a pod which is gone has left incomplete is made for the next pod with its group, also if another pod
// has the volume, and after a restart.
func TestOwedChangeOfDeletedPod(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		d.answer(func(_ context.Context, call string) error {
			if strings.HasPrefix(call, "publish h first") {
				return &Error{Uncertain, errors.New("applyFSGroup failed")}
			}
			return nil
		})
		n := start(t, dir, d, nil)
		if err := n.setUp(inGroup("first", 1)); err == nil {
			t.Error("it is set up without the change")
		}
		n.mustSetUp(pod("none", "h"))
		n.mustTearDown("first")
		n.stop()
		d.called()
		n = start(t, dir, d, nil)
		n.mustSetUp(inGroup("other", 2))
		n.mustSetUp(inGroup("next", 1))
		n.mustSetUp(inGroup("late", 1))
		n.expect("publish h other p0 keeps", "publish h next p0", "publish h late p0 keeps")
		for _, uid := range []types.UID{"none", "other", "next", "late"} {
			n.mustTearDown(uid)
		}
		n.empty()
	})
}

// TestGroupOfOlderRecord: a call without a certain result in the record of a version that recorded no groups doesn't take the files of a pod that
// has the volume. Without such a pod it makes the change; of several calls, the first one does.
func TestGroupOfOlderRecord(t *testing.T) {
	for name, tc := range map[string]struct{ done, unsure, want []string }{
		"another pod": {[]string{"a"}, []string{"b"}, []string{"publish h b p0 keeps"}},
		"alone":       {nil, []string{"b"}, []string{"publish h b p0"}},
		"two":         {nil, []string{"b", "c"}, []string{"publish h b p0", "publish h c p0 keeps"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, d := t.TempDir(), newTruth()
			synctest.Test(t, func(t *testing.T) {
				n := start(t, dir, d, nil)
				for _, uid := range tc.done {
					n.mustSetUp(inGroup(uid, 1))
				}
				d.answer(func(_ context.Context, call string) error {
					if strings.HasPrefix(call, "publish") {
						return &Error{Uncertain, errors.New("mount failed")}
					}
					return nil
				})
				for _, uid := range tc.unsure {
					if err := n.setUp(inGroup(uid, 2)); err == nil {
						t.Errorf("%s is set up", uid)
					}
				}
				n.stop()
				files, err := filepath.Glob(filepath.Join(dir, "volumes", "*.json"))
				if err != nil || len(files) != 1 {
					t.Fatal(files, err)
				}
				data, err := os.ReadFile(files[0])
				if err != nil {
					t.Fatal(err)
				}
				older := regexp.MustCompile(`,"(fsGroup|owedGroup|keepsGroup)":(\d+|true)`).ReplaceAll(data, nil)
				if err := os.WriteFile(files[0], older, 0o600); err != nil || len(older) == len(data) {
					t.Fatalf("the record has no groups: %s (%v)", data, err)
				}
				d.answer(nil)
				d.called()
				n = start(t, dir, d, nil)
				for _, uid := range tc.unsure {
					n.mustSetUp(inGroup(uid, 2))
				}
				synctest.Wait()
				calls := d.called()
				slices.Sort(calls)
				if !slices.Equal(calls, tc.want) {
					t.Errorf("calls %q, want %q", calls, tc.want)
				}
				for _, uid := range append(tc.done, tc.unsure...) {
					n.mustTearDown(types.UID(uid))
				}
				n.empty()
			})
		})
	}
}

// TestGroupAfterLastPod: a pod that is being torn down isn't one that has the volume: the next one has the files changed to its group.
func TestGroupAfterLastPod(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, nil)
		n.mustSetUp(inGroup("a", 1))
		d.answer(func(_ context.Context, call string) error {
			if call == "unpublish h a" {
				return &Error{Uncertain, errors.New("busy")}
			}
			return nil
		})
		if err := n.manager.TearDown(t.Context(), "a"); err == nil {
			t.Error("it is torn down")
		}
		d.called()
		n.mustSetUp(inGroup("b", 2))
		if calls := d.called(); !slices.Contains(calls, "publish h b p0") {
			t.Errorf("calls %q", calls)
		}
		d.answer(nil)
		time.Sleep(10 * time.Minute)
		n.mustTearDown("a")
		n.mustTearDown("b")
		n.empty()
	})
}

// TestGroupOfReader: a pod that only reads the volume has no change, so that it leaves none to other pods.
func TestGroupOfReader(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, nil)
		reader := func(uid string) *v1.Pod {
			p := inGroup(uid, 1)
			p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
			return p
		}
		d.answer(func(_ context.Context, call string) error {
			if strings.HasPrefix(call, "publish h first") {
				return &Error{Uncertain, errors.New("mount failed")}
			}
			return nil
		})
		if err := n.setUp(reader("first")); err == nil {
			t.Error("it is set up")
		}
		d.called()
		n.mustSetUp(inGroup("writer", 1))
		n.mustSetUp(reader("last"))
		calls := slices.DeleteFunc(d.called(), func(c string) bool { return strings.HasPrefix(c, "publish h first") })
		if want := []string{"publish h writer p0 keeps", "publish h last p0"}; !slices.Equal(calls, want) {
			t.Errorf("calls %q, want %q", calls, want)
		}
		for _, uid := range []types.UID{"first", "writer", "last"} {
			n.mustTearDown(uid)
		}
		n.empty()
	})
}
