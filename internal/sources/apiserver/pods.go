package apiserver

import (
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/podstream/podstream/internal/manifest"
)

// pods is the store of the reflector. It keeps the pods, and what changed since Run last took it.
type pods struct {
	mine func(*v1.Pod) bool
	// signal has a token if there is something to take.
	signal chan struct{}

	mu    sync.Mutex
	known map[string]*v1.Pod
	// open: a watch was opened since the last list or failure. away: nothing was read since the last failure.
	open, away bool
	// complete: all pods were read once.
	complete bool
	next     batch
	// at is how far they follow the cluster. snapshot is what the next Replace is of. history may be nil.
	at       point
	snapshot snapshot
	history  history
	// awaited is what the pods are compared with. Nil: nothing.
	awaited *confirmation
	// recovered has a token if they were read after they couldn't be, and reopened if a watch was opened that doesn't follow
	// a list. listed: the next one does.
	recovered, reopened chan struct{}
	listed              bool
}

// batch is what happened since the previous one was taken.
type batch struct {
	// changed is by namespace/name; nil is a removed pod.
	changed map[string]*v1.Pod
	// good: the server was read, so that the pods are current. err: it can't be read now, which happened after good.
	good bool
	err  error
	// watched: it was read by a watch.
	watched bool
	// at is how far the pods follow the cluster.
	at point
}

var (
	_ cache.ReflectorBookmarkStore = (*pods)(nil)
	_ cache.TransformingStore      = (*pods)(nil)
)

func newPods(mine func(*v1.Pod) bool) *pods {
	return &pods{
		mine: mine, signal: make(chan struct{}, 1), known: map[string]*v1.Pod{}, next: batch{changed: map[string]*v1.Pod{}},
		recovered: make(chan struct{}, 1), reopened: make(chan struct{}, 1),
	}
}

// take returns what happened since.
func (p *pods) take() batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.next
	taken.at = p.at
	p.next = batch{changed: map[string]*v1.Pod{}}
	return taken
}

// Add puts a pod.
func (p *pods) Add(obj any) error { return p.put(obj) }

// Update puts a pod.
func (p *pods) Update(obj any) error { return p.put(obj) }

// Delete removes a pod.
func (p *pods) Delete(obj any) error {
	pod, err := asPod(obj)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.event(podKey(pod), nil, pod.ResourceVersion)
	return nil
}

// Replace replaces all pods by those of a complete reading.
func (p *pods) Replace(list []any, version string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.judge(version); err != nil {
		return err
	}
	gone := make(map[string]bool, len(p.known))
	for key := range p.known {
		gone[key] = true
	}
	changed := false
	for _, obj := range list {
		pod, err := asPod(obj)
		if err != nil || !p.mine(pod) {
			continue
		}
		key := podKey(pod)
		delete(gone, key)
		// A server that was restored from a backup may give two contents the same version.
		if was := p.known[key]; was == nil || !equality.Semantic.DeepEqual(was, pod) {
			changed = true
			p.set(key, pod)
		}
	}
	for key := range gone {
		p.set(key, nil)
	}
	p.at.replace(p.snapshot.of, version, changed || len(gone) > 0 || !p.complete)
	p.read(p.open)
	p.passing("")
	return nil
}

// Bookmark records that all pods are current.
func (p *pods) Bookmark(version string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at.event(version, false)
	p.read(true)
	p.passing("")
	return nil
}

// Resync does nothing; a reflector without a period never calls it.
func (p *pods) Resync() error { return nil }

// Transformer removes unneeded fields while the reflector collects a streaming list.
func (p *pods) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		pod, err := asPod(obj)
		if err != nil {
			return obj, nil //nolint:nilerr // the store itself refuses it
		}
		if !p.mine(pod) {
			return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}}, nil
		}
		return pod, nil
	}
}

// listing is part of observer, as are opened and failed.
func (p *pods) listing() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open, p.listed = false, true
}

func (p *pods) opened(initial bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = true
	if !initial && !p.listed {
		notify(p.reopened)
	}
	p.listed = false
	switch {
	case initial:
		// The reflector calls Replace once the initial state is complete.
	case p.away:
		p.read(true)
		p.settle()
	default:
		p.next.watched = true
		p.wake()
	}
}

func (p *pods) failed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open, p.listed, p.away = false, false, true
	p.next.err = err
	p.wake()
}

// heard records that the server answered. That confirms the pods only while they are followed.
func (p *pods) heard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.complete && !p.away {
		p.next.good = true
		p.wake()
	}
}

func (p *pods) put(obj any) error {
	pod, err := asPod(obj)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := podKey(pod)
	was := p.known[key]
	switch {
	case !p.mine(pod):
		p.event(key, nil, pod.ResourceVersion)
	case was == nil || was.UID != pod.UID || was.ResourceVersion != pod.ResourceVersion:
		p.event(key, pod, pod.ResourceVersion)
	default:
		p.at.event(pod.ResourceVersion, false)
	}
	return nil
}

// event records a change from a watch. Those of other nodes' pods change nothing, and don't wake Run. The caller
// holds the lock, here and below.
func (p *pods) event(key string, pod *v1.Pod, version string) {
	changed := p.set(key, pod)
	p.at.event(version, changed)
	if changed || p.away {
		p.read(true)
	}
	p.passing(key)
}

// set records a change, and reports whether it is one.
func (p *pods) set(key string, pod *v1.Pod) bool {
	if _, ok := p.known[key]; !ok && pod == nil {
		return false
	}
	if pod == nil {
		delete(p.known, key)
	} else {
		p.known[key] = pod
	}
	p.next.changed[key] = pod
	return true
}

func (p *pods) read(watched bool) {
	if p.away || !p.complete {
		notify(p.recovered)
	}
	p.away, p.complete = false, true
	p.next.good, p.next.err = true, nil
	p.next.watched = p.next.watched || watched
	p.wake()
}

func (p *pods) wake() {
	notify(p.signal)
}

func notify(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// asPod returns a pod that was just read, without the fields that aren't needed.
func asPod(obj any) (*v1.Pod, error) {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return nil, fmt.Errorf("it is a %T, not a pod", obj)
	}
	if pod.Namespace == "" || pod.Name == "" || pod.UID == "" {
		return nil, fmt.Errorf("pod %q of namespace %q has UID %q: one of them is missing", pod.Name, pod.Namespace, pod.UID)
	}
	pod.ManagedFields = nil
	// Only a relay may set a pod's relay-path.
	delete(pod.Annotations, manifest.RelayPathAnnotation)
	pod.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
	return pod, nil
}

func podKey(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }
