package pleg

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// TestRandomHistories: pods come, change and go in any order, readings take time, and events are lost, late, and
// doubled. A worker that reads the reported pods has their present state in the end, and exactly the running processes
// are followed. A reading that is called current has all states of the events so far, whether its pod was being changed
// or not.
func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{
				kind: rapid.SampledFrom([]string{
					"change", "change", "advance", "go", "event", "told", "late", "end", "refresh", "read", "act", "done", "list", "listed", "react",
				}).Draw(rt, "kind"),
				uid: rapid.SampledFrom([]types.UID{"a", "b", "c"}).Draw(rt, "uid"),
			}
		}), 1, 60).Draw(rt, "steps")
		var err error
		synctest.Test(t, func(t *testing.T) { err = play(t, steps) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

type step struct {
	kind string
	uid  types.UID
}

func play(t *testing.T, steps []step) error {
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	r := &fakeRuntime{clock: clock, holdStatus: map[types.UID]chan struct{}{}}
	kernel := newFakeExits()
	p := New(Config{Runtime: r, Clock: clock, Exits: kernel})
	p.relist(t.Context())
	truth := map[types.UID]*observed.Pod{}
	// reported are the pods without a change since their last event.
	reported := map[types.UID]bool{}
	// before is what each pod was like before the last change.
	before := map[types.UID]*observed.Pod{}
	acts := map[types.UID]func(){}
	var releaseList func()
	released := map[types.UID]func(){}
	finish := func(release func()) {
		if release != nil {
			release()
			synctest.Wait()
		}
	}
	for i, s := range steps {
		switch s.kind {
		case "change", "advance", "go":
			was := truth[s.uid]
			before[s.uid] = was
			delete(truth, s.uid)
			switch {
			case s.kind == "change":
				state := []observed.State{observed.Created, observed.Running}[i%2]
				truth[s.uid] = &observed.Pod{UID: s.uid, Containers: []observed.Container{{ID: fmt.Sprint(i), State: state, PID: i + 1}}}
			case s.kind == "advance" && was != nil:
				c := was.Containers[0]
				c.State = min(c.State+1, observed.Exited)
				truth[s.uid] = &observed.Pod{UID: s.uid, Containers: []observed.Container{c}}
			}
			reported[s.uid] = false
			var pods []*observed.Pod
			for _, pod := range truth {
				pods = append(pods, pod)
			}
			r.set(pods...)
		case "event":
			p.receive(anything(s.uid))
			reported[s.uid] = true
		case "told":
			if pod := truth[s.uid]; pod != nil {
				p.receive(pod)
				reported[s.uid] = true
			}
		case "late":
			if pod := before[s.uid]; pod != nil {
				p.receive(pod)
			}
		case "act":
			if acts[s.uid] == nil {
				acts[s.uid] = p.Act(s.uid)
			}
		case "done":
			if acts[s.uid] != nil {
				acts[s.uid]()
				delete(acts, s.uid)
			}
		case "end":
			// The kernel reports all ended processes, in any order.
			for id := range kernel.followed {
				if !slices.ContainsFunc(r.pods, func(pod *observed.Pod) bool { return pod.Containers[0].ID == id && runs(pod) }) {
					kernel.end(id)
				}
			}
			p.ends(kernel.Take())
		case "refresh":
			if released[s.uid] == nil {
				released[s.uid] = r.holdPod(s.uid)
				go func() { _, _ = p.Refresh(t.Context(), s.uid) }()
				synctest.Wait()
			}
		case "read":
			finish(released[s.uid])
			delete(released, s.uid)
		case "list":
			if releaseList == nil {
				releaseList = r.holdList()
				go p.relist(t.Context())
				synctest.Wait()
			}
		case "listed":
			finish(releaseList)
			releaseList = nil
		case "react":
			if err := react(t.Context(), p, released); err != nil {
				return err
			}
		}
		for uid := range reported {
			if pod := p.cached(uid); reported[uid] && pod != nil && !same(pod, truth[uid]) {
				return fmt.Errorf("step %d: %s is called current as %+v, and an event told that it is %+v", i, uid, pod, truth[uid])
			}
		}
	}
	finish(releaseList)
	for _, release := range released {
		finish(release)
	}
	for _, done := range acts {
		done()
	}
	p.relist(t.Context())
	if err := react(t.Context(), p, nil); err != nil {
		return err
	}
	for _, uid := range []types.UID{"a", "b", "c"} {
		pod, err := p.Current(t.Context(), uid)
		if err != nil {
			return err
		}
		if !same(pod, truth[uid]) || !same(p.Get(uid), truth[uid]) {
			return fmt.Errorf("%s is %+v at last; Current has %+v, Get %+v", uid, truth[uid], pod, p.Get(uid))
		}
	}
	running := 0
	for _, pod := range truth {
		if !runs(pod) {
			continue
		}
		running++
		if id := pod.Containers[0].ID; kernel.followed[id] == 0 {
			return fmt.Errorf("%s of %s isn't followed at last, but %v are", id, pod.UID, kernel.followed)
		}
	}
	if len(kernel.followed) != running || !p.covered() {
		return fmt.Errorf("%v are followed at last (all: %t); want just what runs of %+v", kernel.followed, p.covered(), truth)
	}
	pods, _ := p.Pods()
	if len(pods) != len(truth) || slices.ContainsFunc(pods, func(pod *observed.Pod) bool { return !same(pod, truth[pod.UID]) }) {
		return fmt.Errorf("%+v are there at last; Pods has %+v", truth, pods)
	}
	return nil
}

// react does the work of woken workers, except for pods with a reading in progress.
func react(ctx context.Context, p *PLEG, busy map[types.UID]func()) error {
	for _, e := range p.Take() {
		if busy[e.UID] != nil {
			continue
		}
		if _, err := p.Current(ctx, e.UID); err != nil {
			return err
		}
	}
	return nil
}

func runs(pod *observed.Pod) bool { return pod.Containers[0].State == observed.Running }

func same(a, b *observed.Pod) bool { return len(Compare(a, b)) == 0 }
