package store_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/store"
)

// model is the expected contents of a store.
type model struct {
	limit           int
	instance        string
	number, horizon uint64
	pods            map[types.UID]*revision.Pod
	tombs           []history.Tombstone
	ready           map[string]uint64
}

// newModel starts with the contents of an opened store.
func newModel(limit int, c *store.Contents) *model {
	m := &model{limit: limit, instance: c.Instance, number: c.Number, horizon: c.Horizon, pods: map[types.UID]*revision.Pod{},
		tombs: slices.Clone(c.Tombstones), ready: maps.Clone(c.ReadySources)}
	for _, p := range c.Pods {
		m.pods[p.UID()] = p
	}
	return m
}

func (m *model) apply(revs ...*revision.Revision) {
	for _, rev := range revs {
		m.number = rev.Number
		for _, c := range rev.Changes {
			for _, p := range c.Pods {
				if m.pods[p.UID()] = p; c.Op == revision.REMOVE {
					delete(m.pods, p.UID())
					m.tombs = append(m.tombs, history.Tombstone{Pod: p, Removed: rev.Number})
				}
			}
		}
		for _, p := range rev.Settled {
			m.pods[p.UID()] = p
		}
		for _, name := range rev.Dropped {
			delete(m.ready, name)
		}
		if rev.BecameReady {
			m.ready[rev.Source] = rev.Number
		}
		for ; len(m.tombs) > m.limit; m.tombs = m.tombs[1:] {
			m.horizon = m.tombs[0].Removed
		}
	}
}

func (m *model) contents() *store.Contents {
	c := &store.Contents{
		Instance: m.instance, Number: m.number, Horizon: m.horizon, Tombstones: m.tombs, ReadySources: m.ready,
		Pods: slices.Collect(maps.Values(m.pods)),
	}
	slices.SortFunc(c.Pods, func(a, b *revision.Pod) int { return cmp.Compare(sortKey(a), sortKey(b)) })
	return c
}

func sortKey(p *revision.Pod) string {
	return p.Object.Namespace + "\x00" + p.Object.Name + "\x00" + string(p.Object.UID)
}

// describe formats all contents except Stale, on one line each.
func describe(c *store.Contents) []string {
	lines := []string{fmt.Sprintf("%s at %d, horizon %d", c.Instance, c.Number, c.Horizon)}
	for _, p := range c.Pods {
		object, err := p.Object.Marshal()
		if err != nil {
			panic(err)
		}
		lines = append(lines, fmt.Sprintf("pod %s origin %s object %x", identity(p), p.Origin, sha256.Sum256(object)))
	}
	for _, tomb := range c.Tombstones {
		lines = append(lines, fmt.Sprintf("tombstone %s removed %d", identity(tomb.Pod), tomb.Removed))
	}
	for _, name := range slices.Sorted(maps.Keys(c.ReadySources)) {
		lines = append(lines, fmt.Sprintf("source %s ready at %d", name, c.ReadySources[name]))
	}
	return lines
}

func identity(p *revision.Pod) string {
	return fmt.Sprintf("%s uid %s source %s digests %s %s revisions %d %d %d", p, p.UID(), p.Source, p.SpecDigest, p.StatusDigest,
		p.Created, p.SpecChanged, p.StatusChanged)
}

// draw returns a random number below n.
type draw func(n int) int

var ops = []revision.Op{
	revision.REMOVE, revision.REMOVE, revision.ADD, revision.ADD, revision.ADD, revision.UPDATE, revision.DELETE, revision.RECONCILE,
	revision.RESTORE,
}

// drawRevision returns a random revision of any kind. It may remove missing pods, and remove and add one UID.
func drawRevision(d draw, number uint64) *revision.Revision {
	sources := []string{"file", "http", "api", "file:über"}
	rev := &revision.Revision{Number: number, Source: sources[d(4)], BecameReady: d(8) == 0}
	for range d(4) {
		change := revision.Change{Op: ops[d(len(ops))], Source: sources[d(4)]}
		for range d(3) {
			change.Pods = append(change.Pods, drawPod(d, number))
		}
		rev.Changes = append(rev.Changes, change)
	}
	for range d(5) - 3 {
		rev.Settled = append(rev.Settled, drawPod(d, number))
	}
	if d(6) == 0 {
		// It changes the sources. Some are removed or added again, whether they were ever ready or not.
		rev.Source, rev.BecameReady, rev.Sources = "", false, sources[d(4):]
		for _, name := range sources {
			if d(3) == 0 {
				rev.Dropped = append(rev.Dropped, name)
			}
		}
	}
	return rev
}

func drawPod(d draw, number uint64) *revision.Pod {
	// Some pods have a few pages, and a few have many.
	size := []int{0, 100, 2000, 9000, 300_000}[[]int{0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4}[d(12)]]
	p := newPod(fmt.Sprintf("u%d", d(20)), fmt.Sprintf("n%d", d(5)), number, size)
	p.Source, p.Origin = []string{"file", "http", "api"}[d(3)], []string{"", "/etc/podstream/manifests/web.yaml", "ä\x00ö"}[d(3)]
	return p
}

func newPod(uid, name string, number uint64, size int) *revision.Pod {
	at := metav1.NewTime(time.Unix(1_700_000_000+int64(number), 0))
	return &revision.Pod{
		Object: &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				UID: types.UID(uid), Namespace: "default", Name: name, Labels: map[string]string{"app": "web", "tier": "front"},
				Annotations: map[string]string{
					"kubernetes.io/config.seen": at.UTC().Format(time.RFC3339Nano), "pad": strings.Repeat("x", size),
				},
				DeletionTimestamp: &at,
			},
			Spec: v1.PodSpec{Containers: []v1.Container{{
				Name: "main", Image: fmt.Sprintf("web:%d", number), Command: []string{"/web", "--listen"},
				Env: []v1.EnvVar{{Name: "LANG", Value: "C.UTF-8"}},
				Resources: v1.ResourceRequirements{
					Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1500m"), v1.ResourceMemory: resource.MustParse("64Mi")},
				},
			}}},
			Status: v1.PodStatus{Phase: v1.PodRunning, StartTime: &at},
		},
		Source: "file", Origin: "/etc/podstream/manifests/web.yaml",
		SpecDigest:   fmt.Sprintf("sha256:%x", sha256.Sum256(fmt.Append(nil, uid, number))),
		StatusDigest: fmt.Sprintf("sha256:%x", sha256.Sum256(bytes.Repeat([]byte{1}, int(number%7)))),
		Created:      number / 3, SpecChanged: number / 2, StatusChanged: number,
	}
}
