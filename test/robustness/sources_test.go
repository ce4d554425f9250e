package robustness

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
)

// allSources are the sources of a simulation. At each start, the daemon has some of them, in this order.
var allSources = []string{"file", "http", "api"}

var errUnreadable = errors.New("the source can't be read")

// feeds are the sources, with their present and next sets.
type feeds struct {
	chance
	// padding is the chance of large pods, of which a few fill a stream: one in this many. Zero means none.
	padding int
	last    map[string][]*manifest.Origin
	second  int64
}

func newFeeds(c chance, padding int) *feeds {
	return &feeds{chance: c, padding: padding, last: map[string][]*manifest.Origin{}}
}

// set returns the next set of one of the sources. There are so few names and UIDs that they often conflict.
func (f *feeds) set(sources []string) manifest.Set {
	f.second++
	source := pick(f, "source", sources...)
	set := manifest.Set{Source: source, ReadTime: time.Unix(1_700_000_000+f.second, 0)}
	if oneIn(f, 20, "unreadable") {
		set.Err = errUnreadable
		return set
	}
	for _, name := range []string{"a", "b", "c"} {
		if o := f.origin(source, name); o != nil {
			set.Origins = append(set.Origins, o)
		}
	}
	if oneIn(f, 8, "reordered") {
		slices.Reverse(set.Origins)
	}
	f.last[source] = set.Origins
	return set
}

// origin returns the next version of an origin, or nil if it is removed.
func (f *feeds) origin(source, name string) *manifest.Origin {
	var last *manifest.Origin
	if i := slices.IndexFunc(f.last[source], func(o *manifest.Origin) bool { return o.Name == name }); i >= 0 {
		last = f.last[source][i]
	}
	fate := f.intn(8, "fate of "+name)
	switch {
	case fate == 7, last == nil && fate < 2:
		return nil
	case fate < 2:
		return last
	case last == nil || fate == 6:
		return f.newOrigin(source, name)
	}
	next := &manifest.Origin{Name: name, Pods: slices.Clone(last.Pods), Held: oneIn(f, 8, "held")}
	// Sometimes it is read again without a change.
	if fate > 2 && len(next.Pods) > 0 {
		i := f.intn(len(next.Pods), "which pod")
		next.Pods[i] = f.changed(recipeOf(next.Pods[i])).make()
	}
	return next
}

func (f *feeds) newOrigin(source, name string) *manifest.Origin {
	o := &manifest.Origin{Name: name, Held: oneIn(f, 6, "held")}
	for range pick(f, "pods", 1, 2, 0) {
		o.Pods = append(o.Pods, f.recipe(source).make())
	}
	return o
}

// recipe has all fields in which the pods of a simulation differ.
type recipe struct {
	uid, namespace, name, node, tier, image, phase, mirror string
	deleting                                               bool
	// pad is the size of an annotation, in KiB.
	pad int
}

func (f *feeds) recipe(source string) recipe {
	r := recipe{
		uid: fmt.Sprintf("u%d", f.intn(6, "uid")), namespace: "default", name: fmt.Sprintf("n%d", f.intn(4, "name")),
		node: "node-0", tier: "a", image: "i0", phase: "p0",
	}
	switch kind := f.intn(8, "kind"); {
	case kind == 7:
		r.namespace = "kube"
	case kind == 6 && source == "api":
		// A mirror pod has a UID of its own and the name of another source's pod, but never the name of another
		// pod of its own source.
		of := f.intn(2, "mirror of")
		r.uid, r.name, r.mirror = fmt.Sprintf("m%d", of), fmt.Sprintf("s%d", of), "m"
	case kind >= 5 && source != "api":
		r.name = fmt.Sprintf("s%d", f.intn(2, "static name"))
	}
	for range f.intn(3, "changes") {
		r = f.changed(r)
	}
	if f.padding > 0 && oneIn(f, f.padding, "padded") {
		r.pad = 64
	}
	return r
}

// changed returns a later version of the pod.
func (f *feeds) changed(r recipe) recipe {
	switch f.intn(7, "change") {
	case 0, 1:
		r.phase = pick(f, "phase", "p0", "p1", "p2")
	case 2:
		r.image = pick(f, "image", "i0", "i1")
	case 3, 4:
		r.tier = pick(f, "tier", "a", "b")
	case 5:
		r.node = pick(f, "node", "node-0", "node-1")
	default:
		r.deleting = !r.deleting
	}
	return r
}

var (
	madePods sync.Map // by recipe
	recipes  sync.Map // by pod
)

// make returns the pod, with its digests. Pods never change, so each is made once.
func (r recipe) make() *manifest.Pod {
	if p, ok := madePods.Load(r); ok {
		return p.(*manifest.Pod)
	}
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			UID: types.UID(r.uid), Namespace: r.namespace, Name: r.name,
			Labels: map[string]string{"tier": r.tier}, Annotations: map[string]string{},
		},
		Spec:   v1.PodSpec{NodeName: r.node, Containers: []v1.Container{{Name: "main", Image: r.image}}},
		Status: v1.PodStatus{Phase: v1.PodPhase(r.phase)},
	}
	if r.mirror != "" {
		p.Annotations[manifest.MirrorAnnotation] = r.mirror
	}
	if r.pad > 0 {
		p.Annotations["pad"] = strings.Repeat("x", r.pad<<10)
	}
	if r.deleting {
		at, grace := metav1.Unix(1_700_000_000, 0), int64(30)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
	}
	made, _ := madePods.LoadOrStore(r, mergetest.Pod(p))
	recipes.Store(made, r)
	return made.(*manifest.Pod)
}

func recipeOf(p *manifest.Pod) recipe {
	r, _ := recipes.Load(p)
	return r.(recipe)
}
