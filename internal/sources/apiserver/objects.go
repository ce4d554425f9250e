package apiserver

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources"
)

// RunObjects follows the wanted objects, as Config.ChangeDetection and Config.WatchSecrets say, until ctx ends. Then it
// returns nil; it never returns an error. It calls out, always from the same goroutine, with each object when it is
// first known and after each change, and with nil when it is known not to exist. If wanted is closed, the last set
// stays wanted. It doesn't need Run.
func (s *Source) RunObjects(
	ctx context.Context, wanted <-chan []sources.ObjectKey, out func(sources.ObjectKey, *manifest.Object),
) error {
	ctx, cancel := context.WithCancel(ctx)
	f := &followers{
		source: s, out: out, byKey: map[sources.ObjectKey]*follower{}, updates: newUpdates(),
		namespaces: map[group]*namespace{}, refused: map[group]context.CancelFunc{},
		logged: map[manifest.ObjectKind]bool{}, turns: newTurns(),
	}
	defer s.server.closeIdle()
	defer f.running.Wait()
	defer cancel()
	var referred <-chan struct{}
	if s.referrals != nil {
		referred = s.referrals.signal
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case keys, ok := <-wanted:
			if !ok {
				wanted = nil
				continue
			}
			f.want(ctx, keys)
		case <-f.updates.signal:
			f.report(f.updates.take())
		case <-f.turns.signal:
			f.turn(ctx, f.turns.take())
		case <-referred:
			f.again(s.referrals.take())
		}
	}
}

// followers are those of one RunObjects, whose goroutine alone uses them.
type followers struct {
	source *Source
	out    func(sources.ObjectKey, *manifest.Object)
	byKey  map[sources.ObjectKey]*follower
	// wanted counts the wanted objects.
	wanted map[group]int
	// namespaces are those whose objects are followed together, and refused those of which the server refuses that: their
	// objects are followed one by one, until it is allowed. The values end what waits for that.
	namespaces map[group]*namespace
	refused    map[group]context.CancelFunc
	// logged: it was logged for a kind that it is forbidden.
	logged  map[manifest.ObjectKind]bool
	turns   *turns
	updates *updates
	running sync.WaitGroup
}

// want follows these objects and no others.
func (f *followers) want(ctx context.Context, keys []sources.ObjectKey) {
	stay := make(map[sources.ObjectKey]bool, len(keys))
	f.wanted = map[group]int{}
	for _, key := range keys {
		if !stay[key] {
			f.wanted[groupOf(key)]++
		}
		stay[key] = true
	}
	for key, follower := range f.byKey {
		if !stay[key] {
			follower.stop()
			delete(f.byKey, key)
		}
	}
	f.forget()
	added := map[group][]sources.ObjectKey{}
	for key := range stay {
		if f.byKey[key] != nil {
			continue
		}
		if _, example := kindOf(key.Kind); example == nil {
			f.source.cfg.Logger.Warn("an object of an unknown kind is requested", "kind", key.Kind.String())
			continue
		}
		if f.together(groupOf(key)) {
			added[groupOf(key)] = append(added[groupOf(key)], key)
		} else {
			f.single(ctx, key)
		}
	}
	for group, keys := range added {
		f.join(ctx, group, keys)
	}
}

// single follows one object by itself.
func (f *followers) single(ctx context.Context, key sources.ObjectKey) {
	following, stop := context.WithCancel(ctx)
	follower := f.newFollower(key)
	follower.stop = stop
	f.running.Go(func() {
		defer stop()
		f.source.objects.follow(following, follower)
	})
}

// newFollower makes the follower of an object, in place of any other one.
func (f *followers) newFollower(key sources.ObjectKey) *follower {
	follower := &follower{
		key: key, updates: f.updates, again: make(chan struct{}, 1),
		log: f.source.cfg.Logger.With("kind", key.Kind.String(), "object", key.Namespace+"/"+key.Name),
	}
	f.byKey[key] = follower
	return follower
}

// again has these objects read now.
func (f *followers) again(keys map[sources.ObjectKey]bool) {
	for key := range keys {
		follower := f.byKey[key]
		if follower == nil {
			continue // it will be, when it is wanted
		}
		select {
		case follower.again <- struct{}{}:
		default:
		}
	}
}

// report passes on what is still wanted.
func (f *followers) report(values map[*follower]*manifest.Object) {
	for from, object := range values {
		if f.byKey[from.key] != from || from.done {
			continue
		}
		if object != nil && immutable(object) {
			// It is done before it is reported: later values of its watch, and its end, aren't reported.
			from.done = true
			from.stop()
		}
		f.out(from.key, object)
	}
}

func kindOf(kind manifest.ObjectKind) (resource string, example runtime.Object) {
	switch kind {
	case manifest.ConfigMapKind:
		return "configmaps", &v1.ConfigMap{}
	case manifest.SecretKind:
		return "secrets", &v1.Secret{}
	default:
		return "", nil
	}
}

func immutable(o *manifest.Object) bool {
	is := func(flag *bool) bool { return flag != nil && *flag }
	return o.ConfigMap != nil && is(o.ConfigMap.Immutable) || o.Secret != nil && is(o.Secret.Immutable)
}
