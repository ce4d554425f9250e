package apiserver

import (
	"context"
	"sync"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources"
)

// RunObjects follows the wanted objects, each on its own, as Config.ChangeDetection says, until ctx ends, and then returns nil; it never returns
// another error. It calls out, always from the same goroutine, with each object when it is first known and after each change,
// and with nil when it is known not to exist. If wanted is closed, the last set stays wanted. It doesn't need Run.
func (s *Source) RunObjects(
	ctx context.Context, wanted <-chan []sources.ObjectKey, out func(sources.ObjectKey, *manifest.Object),
) error {
	ctx, cancel := context.WithCancel(ctx)
	f := &followers{
		source: s, out: out,
		byKey: map[sources.ObjectKey]*follower{}, starts: rate.NewLimiter(50, 100), news: newNews(),
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
		case <-f.news.signal:
			f.tell(f.news.take())
		case <-referred:
			f.again(s.referrals.take())
		}
	}
}

// followers are those of one RunObjects, in whose goroutine all of it is used.
type followers struct {
	source *Source
	out    func(sources.ObjectKey, *manifest.Object)
	byKey  map[sources.ObjectKey]*follower
	// starts bounds how fast they begin.
	starts  *rate.Limiter
	news    *news
	running sync.WaitGroup
}

// want follows these objects and no others.
func (f *followers) want(ctx context.Context, keys []sources.ObjectKey) {
	stay := make(map[sources.ObjectKey]bool, len(keys))
	for _, key := range keys {
		stay[key] = true
	}
	for key, follower := range f.byKey {
		if !stay[key] {
			follower.stop()
			delete(f.byKey, key)
		}
	}
	for key := range stay {
		if f.byKey[key] != nil {
			continue
		}
		if _, example := kindOf(key.Kind); example == nil {
			f.source.cfg.Logger.Warn("an object of a kind that isn't known is wanted", "kind", key.Kind.String())
			continue
		}
		following, stop := context.WithCancel(ctx)
		follower := &follower{
			key: key, stop: stop, news: f.news, again: make(chan struct{}, 1),
			log: f.source.cfg.Logger.With("kind", key.Kind.String(), "object", key.Namespace+"/"+key.Name),
		}
		f.byKey[key] = follower
		f.running.Go(func() {
			defer stop()
			if f.starts.Wait(following) != nil {
				return // it isn't wanted any more
			}
			f.source.objects.follow(following, follower)
		})
	}
}

// again has these objects asked for now.
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

// tell passes on what is still wanted.
func (f *followers) tell(values map[*follower]*manifest.Object) {
	for from, object := range values {
		if f.byKey[from.key] != from || from.done {
			continue
		}
		if object != nil && immutable(object) {
			// It is done before it is told: what comes of its watch meanwhile, and then no more, isn't the last word.
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
