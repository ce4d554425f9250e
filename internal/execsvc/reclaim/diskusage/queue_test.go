package diskusage

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A queue serves namespaces in turn, and limits the counts under way of each.
func TestQueue(t *testing.T) {
	q := newQueue(2)
	entries := map[string]*entry{}
	put := func(uids ...string) {
		for _, uid := range uids {
			p := pod(types.UID(uid))
			p.Namespace = uid[:1]
			entries[uid] = &entry{pod: p}
			q.put(entries[uid])
		}
	}
	next := func(want string) {
		t.Helper()
		var got []string
		for e := q.next(); e != nil; e = q.next() {
			got = append(got, string(e.pod.UID))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("the next pods are %v; want %s", got, want)
		}
	}
	put("a1", "a2", "a3", "a4", "b1", "c1", "c2", "c3")
	next("a1 b1 c1 a2 c2")
	put("d1")
	next("d1")
	q.done(entries["a1"])
	q.done(entries["c2"])
	next("a3 c3")
	for _, uid := range strings.Fields("a2 a3 b1 c1 c3 d1") {
		q.done(entries[uid])
	}
	next("a4")
	q.done(entries["a4"])
	if len(q.waiting)+len(q.order)+len(q.counting) != 0 {
		t.Errorf("an empty queue has %+v", q)
	}
}

// Any number of large pods in one namespace doesn't prevent the count of a large pod in another one.
func TestNamespacesShareSlowCounts(t *testing.T) {
	d := newDisk(t)
	var hogs []*v1.Pod
	for i := range 3 * slowWorkers {
		hogs = append(hogs, d.filled(types.UID(fmt.Sprint("hog", i)), 2*tickEvery))
	}
	victim := d.filled("victim", 2*tickEvery)
	victim.Namespace = "other"
	// Every pod is large, and no slow count runs.
	m := d.run(func(m *Meter) { m.quickTime = 0; m.turn <- struct{}{} })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m.Counts(ctx, hogs, 0)
	counted := func(namespace string, want int) {
		t.Helper()
		for late := time.After(20 * time.Second); ; {
			m.mu.Lock()
			n, quick := m.slow.counting[namespace], len(m.quick.order)+len(m.quick.counting)
			m.mu.Unlock()
			if n == want && quick == 0 {
				return
			}
			select {
			case <-late:
				t.Fatalf("%d slow counts of %s are under way; want %d", n, namespace, want)
			case <-time.After(time.Millisecond):
			}
		}
	}
	counted("default", slowOfNamespace)
	m.Counts(ctx, []*v1.Pod{victim}, 0)
	counted("other", 1)
	<-m.turn
	for uid, u := range m.Counts(t.Context(), append(hogs, victim), 0) {
		if u.EmptyDirs["x"].Inodes != 2*tickEvery+1 || u.Err != nil {
			t.Errorf("%s: %+v", uid, u)
		}
	}
}
