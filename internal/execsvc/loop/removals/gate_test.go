package removals

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is what is behind a Gate: its pods, as they are after the events that were passed on.
type node struct {
	t     *testing.T
	gate  *Gate
	began time.Time

	mu     sync.Mutex
	pods   map[types.UID]bool // true: its end counts
	log    []string
	cursor *podconfigv1.Cursor
	ready  map[string]bool
	// counted are the times that were reported last.
	counted []time.Time
}

func start(t *testing.T, perMinute, pods int, past ...time.Time) *node {
	t.Helper()
	n := &node{t: t, began: time.Now(), pods: map[types.UID]bool{}, ready: map[string]bool{}}
	for i := range pods {
		n.pods[types.UID(fmt.Sprint("p", i))] = true
	}
	n.gate = New(Config{
		PerMinute: perMinute, Past: past, Next: n.next, Clock: clock.RealClock{},
		Ends: func(p client.Pod) bool { return p.Object.Status.Phase == v1.PodFailed },
		Counted: func(times []time.Time) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.counted = times
		},
		Counts: func(uid types.UID) bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.pods[uid]
		},
		Held:    func(uid types.UID) { n.say("held %s", uid) },
		Dropped: func(uid types.UID) { n.say("dropped %s", uid) },
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { n.gate.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return n
}

func (n *node) say(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log = append(n.log, fmt.Sprintf("%v ", time.Since(n.began).Truncate(time.Second))+fmt.Sprintf(format, args...))
}

func (n *node) next(_ context.Context, e client.Event) error {
	for _, c := range e.Ops {
		n.mu.Lock()
		n.ready[c.Source] = c.SourceReady
		n.mu.Unlock()
		for _, p := range c.Pods {
			n.mu.Lock()
			if n.pods[p.UID] = !n.gate.ends(c, p); c.Op == client.Remove {
				delete(n.pods, p.UID)
			}
			n.mu.Unlock()
			n.say("%s %s", strings.TrimPrefix(c.Op.String(), "POD_OPERATION_"), p.UID)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cursor = e.Cursor
	return nil
}

// op has the stream deliver one op of pods in the revision.
func (n *node) op(revision uint64, op client.Op, uids ...string) {
	n.t.Helper()
	c := client.Change{Op: op}
	for _, uid := range uids {
		p := client.Pod{UID: types.UID(uid)}
		if op != client.Remove {
			p.Object = &v1.Pod{}
		}
		if op == client.Delete {
			p.Object.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}
		c.Pods = append(c.Pods, p)
	}
	e := client.Event{Ops: []client.Change{c}, Cursor: &podconfigv1.Cursor{
		InstanceId: "i", Revision: revision, View: "v", PodconfigdId: "id", Positions: []*podconfigv1.SourcePosition{{Source: "api"}},
	}}
	if err := n.gate.Deliver(n.t.Context(), e); err != nil {
		n.t.Error(err)
	}
	synctest.Wait()
}

// want compares what happened since the last call.
func (n *node) want(lines ...string) {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Equal(n.log, lines) {
		n.t.Errorf("it happened:\n%s\nwant:\n%s", strings.Join(n.log, "\n"), strings.Join(lines, "\n"))
	}
	n.log = nil
}

func (n *node) wantRevision(want uint64) {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.cursor
	if c.GetRevision() != want || (c.GetInstanceId() == "") != (want == 0) || c.GetPodconfigdId() != "id" || len(c.GetPositions()) != 1 {
		n.t.Errorf("the cursor is %v; want revision %d", c, want)
	}
}

// TestRemovalsWait: of a REMOVE of all pods, so many as the limit allows are ended at once, and the others in turn. Their
// pods stay desired until then, and the cursor stands for no revision. Other changes don't wait.
func TestRemovalsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, 2, 4)
		n.op(5, client.Remove, "p0", "p1", "p2", "p3")
		n.want("0s held p2", "0s held p3", "0s REMOVE p0", "0s REMOVE p1")
		n.wantRevision(0)
		n.op(6, client.Add, "new")
		n.want("0s ADD new")
		n.wantRevision(0)
		if n.gate.Len() != 2 {
			t.Errorf("%d removals are held; want 2", n.gate.Len())
		}
		time.Sleep(59 * time.Second)
		n.want()
		n.wantRevision(0)
		time.Sleep(2 * time.Second)
		n.want("1m0s REMOVE p2", "1m0s REMOVE p3")
		n.wantRevision(6)
		n.op(7, client.Update, "new")
		n.wantRevision(7)
	})
}

// TestRemovalIsDropped: a pod that the stream has again before its end goes on, also if only a change of it comes.
func TestRemovalIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, 1, 4)
		n.op(5, client.Remove, "p0", "p1", "p2", "p3")
		n.want("0s held p1", "0s held p2", "0s held p3", "0s REMOVE p0")
		n.op(6, client.Add, "p1")
		n.want("0s dropped p1", "0s ADD p1")
		n.op(7, client.Reconcile, "p3")
		n.want("0s dropped p3", "0s RECONCILE p3")
		n.wantRevision(0)
		time.Sleep(5 * time.Minute)
		n.want("1m0s REMOVE p2")
		n.wantRevision(7)
	})
}

// TestDeletionsCount: a graceful deletion counts as a removal, in any op; the removal of a deleted pod doesn't count again.
// The removal of a pod whose deletion is held takes its place.
func TestDeletionsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, 1, 3)
		n.op(5, client.Delete, "p0", "p1")
		n.want("0s held p1", "0s DELETE p0")
		n.op(6, client.Remove, "p0", "p1")
		n.want("0s REMOVE p0")
		n.op(7, client.Delete, "p1")
		n.want()
		n.op(8, client.Remove, "p1")
		time.Sleep(61 * time.Second)
		n.want("1m0s REMOVE p1")
		// An UPDATE that brings a deletion.
		c := client.Change{Op: client.Update, Pods: []client.Pod{{UID: "p2", Object: &v1.Pod{}}}}
		c.Pods[0].Object.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		if err := n.gate.Deliver(t.Context(), client.Event{Ops: []client.Change{c}}); err != nil {
			t.Error(err)
		}
		n.want("1m1s held p2")
	})
}

// TestEndedPodsDontCount: pods that aren't here, or whose containers have ended, are removed without the limit.
func TestEndedPodsDontCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, 1, 2)
		n.pods["ended"] = false
		n.op(5, client.Remove, "ended", "unknown", "p0", "p1")
		n.want("0s held p1", "0s REMOVE ended", "0s REMOVE unknown", "0s REMOVE p0")
		n.mu.Lock()
		n.pods["p1"] = false // It ends by itself.
		n.mu.Unlock()
		time.Sleep(61 * time.Second)
		n.want("1m0s REMOVE p1")
		n.pods["p4"] = true
		n.op(6, client.Remove, "p4")
		n.want("1m1s REMOVE p4")
	})
}
