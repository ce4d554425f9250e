package apiserver

import (
	"context"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// maxFailures is how many answers in a row may be an error of the server before its objects are read one by one: it can't
// list objects of which it can't decode one.
const maxFailures = 5

// namespace keeps the wanted objects of one kind in one namespace up to date. A watch of the metadata of all of them shows
// which ones have changed. Those are read, always the latest version and never twice at once: so what is reported of an object
// never goes back, whatever the order of events and answers is. Nothing is kept of objects that aren't members.
type namespace struct {
	source *Source
	group  group
	// stop ends it.
	stop context.CancelFunc
	// refused is called, at most once, if the objects have to be read one by one.
	refused func(*namespace, error)
	once    sync.Once
	// signal has a token if members are queued.
	signal chan struct{}

	mu      sync.Mutex
	members map[string]*member
	// queue are the members that have to be read, in the order in which that was found.
	queue []*member
	// whole: many members are read by one list, of all objects of the namespace.
	whole bool
	// backoff is between the attempts of such a list.
	backoff wait.Backoff
	// failures counts the errors of the server since the watch was opened.
	failures int
}

// member is one object of a namespace.
type member struct {
	f *follower
	// queued: it is in the queue, or will be after a pause. reading: it is being read.
	queued, reading bool
	// known: it was read. version is the version that was read, empty if it didn't exist.
	known   bool
	version string
	// hinted: the watch has shown the version hint while it was read.
	hinted bool
	hint   string
	// backoff is between the attempts to read it.
	backoff wait.Backoff
}

var (
	_ cache.ReflectorStore = (*namespace)(nil)
	_ observer             = (*namespace)(nil)
)

func newNamespace(s *Source, g group, refused func(*namespace, error)) *namespace {
	return &namespace{
		source: s, group: g, refused: refused, signal: make(chan struct{}, 1), members: map[string]*member{},
		// The values of other Secrets aren't requested.
		whole: listedWhole(g.kind), backoff: s.backoff,
	}
}

// run follows the members until ctx ends.
func (n *namespace) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		resource, _ := kindOf(n.group.kind)
		r := &reader{
			server: n.source.server, resource: resource, namespace: n.group.namespace, selector: fields.Everything(), observer: n,
			gate: n.source.gate, accept: metadataAccept,
		}
		n.source.reflect(ctx, r, &metav1.PartialObjectMetadata{}, n)
	})
	n.read(ctx)
}

// add makes the followers' objects members.
func (n *namespace) add(followers []*follower) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range followers {
		m := &member{f: f, backoff: n.source.backoff}
		n.members[f.key.Name] = m
		n.enqueue(m)
	}
}

// drop ends the membership of the follower's object.
func (n *namespace) drop(f *follower) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if m := n.members[f.key.Name]; m != nil && m.f == f {
		delete(n.members, f.key.Name)
	}
}

// enqueue has a member read. The caller holds the lock.
func (n *namespace) enqueue(m *member) {
	if m.queued {
		return
	}
	m.queued = true
	n.queue = append(n.queue, m)
	notify(n.signal)
}

// shown takes the version that the watch shows of an object; empty: it doesn't exist. The caller holds the lock.
func (n *namespace) shown(name, version string) {
	m := n.members[name]
	switch {
	case m == nil:
	case m.reading:
		// What is being read may be older.
		m.hinted, m.hint = true, version
	case !m.known || m.version != version:
		n.enqueue(m)
	}
}

// Add takes an object's metadata.
func (n *namespace) Add(obj any) error { return n.put(obj) }

// Update takes an object's metadata.
func (n *namespace) Update(obj any) error { return n.put(obj) }

func (n *namespace) put(obj any) error {
	if o, ok := obj.(metav1.Object); ok && o.GetNamespace() == n.group.namespace {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.shown(o.GetName(), versionText(o))
	}
	return nil
}

// Delete takes that an object is gone.
func (n *namespace) Delete(obj any) error {
	if o, ok := obj.(metav1.Object); ok && o.GetNamespace() == n.group.namespace {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.shown(o.GetName(), "")
	}
	return nil
}

// Replace takes a complete list.
func (n *namespace) Replace(list []any, _ string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	listed := make(map[string]string, len(n.members))
	for _, obj := range list {
		if o, ok := obj.(metav1.Object); ok && o.GetNamespace() == n.group.namespace && n.members[o.GetName()] != nil {
			listed[o.GetName()] = versionText(o)
		}
	}
	for name := range n.members {
		n.shown(name, listed[name])
	}
	return nil
}

// Resync does nothing; a reflector without a period never calls it.
func (n *namespace) Resync() error { return nil }

// listing is part of observer, as are opened and failed.
func (n *namespace) listing() {}

func (n *namespace) opened(bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failures = 0
}

// failed ends it if the objects have to be read one by one. Other failures are those of the server: Run reports them.
func (n *namespace) failed(err error) {
	n.mu.Lock()
	if apierrors.IsInternalError(err) {
		n.failures++
	}
	failing := n.failures >= maxFailures
	n.mu.Unlock()
	if failing || apierrors.IsForbidden(err) || errors.Is(err, errLargePage) || errors.Is(err, errLargeList) {
		n.refuse(err)
	}
}

func (n *namespace) refuse(err error) { n.once.Do(func() { n.refused(n, err) }) }

// versionText is the version of an object as the follower has it.
func versionText(o metav1.Object) string { return string(o.GetUID()) + " " + o.GetResourceVersion() }
