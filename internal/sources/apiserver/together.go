package apiserver

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/podstream/podstream/internal/sources"
)

// refusedFor is how long, at least, a refusal to follow the objects of a namespace together counts. It counts six times as long
// if it isn't because of the role.
const refusedFor = 10 * time.Minute

// turns are the namespaces whose objects have to be followed in another way. Their goroutines pass them to RunObjects.
type turns struct {
	signal chan struct{}

	mu   sync.Mutex
	list []turn
}

// turn is one of them: it is refused, with err, or else the group is allowed.
type turn struct {
	refused *namespace
	err     error
	allowed group
}

func newTurns() *turns { return &turns{signal: make(chan struct{}, 1)} }

func (t *turns) put(next turn) {
	t.mu.Lock()
	t.list = append(t.list, next)
	t.mu.Unlock()
	notify(t.signal)
}

func (t *turns) take() []turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := t.list
	t.list = nil
	return taken
}

// together reports whether the objects of a group are followed together.
func (f *followers) together(g group) bool {
	return f.source.grouped(g.kind) && f.refused[g] == nil && (f.namespaces[g] != nil || f.wanted[g] >= minMembers)
}

// join follows the objects together with those of their group. If there is none yet, the others of the group join, too.
func (f *followers) join(ctx context.Context, g group, keys []sources.ObjectKey) {
	n := f.namespaces[g]
	if n == nil {
		n = newNamespace(f.source, g, func(n *namespace, err error) { f.turns.put(turn{refused: n, err: err}) })
		following, stop := context.WithCancel(ctx)
		n.stop = stop
		f.namespaces[g] = n
		for key, follower := range f.byKey {
			if groupOf(key) == g && !follower.done {
				follower.stop()
				keys = append(keys, key)
			}
		}
		f.running.Go(func() { n.run(following) })
	}
	members := make([]*follower, 0, len(keys))
	for _, key := range keys {
		follower := f.newFollower(key)
		follower.stop = func() { n.drop(follower) }
		members = append(members, follower)
	}
	n.add(members)
}

// forget ends what follows, or waits for, groups of which no object is wanted.
func (f *followers) forget() {
	for g, n := range f.namespaces {
		if f.wanted[g] == 0 {
			n.stop()
			delete(f.namespaces, g)
		}
	}
	for g, stop := range f.refused {
		if f.wanted[g] == 0 {
			stop()
			delete(f.refused, g)
		}
	}
}

// turn follows the objects of namespaces in another way. What was reported of them stays until they are read that way.
func (f *followers) turn(ctx context.Context, turns []turn) {
	for _, t := range turns {
		switch n := t.refused; {
		case n == nil:
			if stop := f.refused[t.allowed]; stop != nil {
				stop()
				delete(f.refused, t.allowed)
				f.source.cfg.Logger.Info("objects of a namespace are watched together now", "kind", t.allowed.kind.String(),
					"namespace", t.allowed.namespace)
				if f.together(t.allowed) {
					f.join(ctx, t.allowed, nil)
				}
			}
		case f.namespaces[n.group] == n:
			f.separate(ctx, n, t.err)
		}
	}
}

// separate follows the objects of a namespace one by one, until it is allowed to follow them together.
func (f *followers) separate(ctx context.Context, n *namespace, err error) {
	n.stop()
	delete(f.namespaces, n.group)
	pause := f.source.refusedFor
	log := f.source.cfg.Logger.With("kind", n.group.kind.String(), "namespace", n.group.namespace, "error", err)
	switch forbidden := apierrors.IsForbidden(err); {
	case !forbidden:
		pause *= 6
		log.Warn("objects of a namespace are watched one by one: they can't be watched together")
	case !f.logged[n.group.kind]:
		// It is the role's, and the same in all namespaces or in many.
		f.logged[n.group.kind] = true
		log.Info("objects of a namespace are watched one by one, which takes more requests: the role doesn't allow to watch " +
			"them together; further namespaces are logged as debug messages")
	default:
		log.Debug("objects of a namespace are watched one by one")
	}
	name := ""
	for key, follower := range f.byKey {
		if groupOf(key) == n.group && !follower.done {
			name = key.Name
			f.single(ctx, key)
		}
	}
	if name == "" {
		return // All are immutable. The next one that is wanted tries again.
	}
	waiting, stop := context.WithCancel(ctx)
	f.refused[n.group] = stop
	f.running.Go(func() { f.source.untilAllowed(waiting, n.group, name, pause, f.turns) })
}

// untilAllowed waits until all objects of a group may be listed and watched, and one of them may be read.
func (s *Source) untilAllowed(ctx context.Context, g group, name string, pause time.Duration, to *turns) {
	for {
		timer := s.cfg.Clock.NewTimer(wait.Jitter(pause, 1))
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return
		}
		if s.allowed(ctx, g, name) {
			to.put(turn{allowed: g})
			return
		}
	}
}

func (s *Source) allowed(ctx context.Context, g group, name string) bool {
	resource, _ := kindOf(g.kind)
	r := &reader{
		server: s.server, resource: resource, namespace: g.namespace, selector: fields.Everything(), observer: ignoring{},
		clock: s.cfg.Clock, gate: s.gate, accept: metadataAccept, pace: rate.NewLimiter(rate.Inf, 0),
	}
	page, err := r.list(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return false
	}
	list, err := meta.ListAccessor(page)
	if err != nil {
		return false
	}
	w, err := r.watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return false
	}
	w.Stop()
	_, err = r.get(ctx, name, "")
	return err == nil || apierrors.IsNotFound(err)
}

// ignoring observes what is only tried.
type ignoring struct{}

func (ignoring) listing() {}

func (ignoring) opened(bool) {}

func (ignoring) failed(error) {}
