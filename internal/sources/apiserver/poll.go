package apiserver

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
)

// spread is how much is added at random to the time between two looks at an object: half of it at most, as to that between a pod's syncs.
const spread = 0.5

// polling asks for each object from time to time.
type polling struct {
	source *Source
	// every is how long what was read counts.
	every func(context.Context) time.Duration
}

func (p polling) follow(ctx context.Context, f *follower) {
	resource, _ := kindOf(f.key.Kind)
	looks := &looks{f: f, r: &reader{
		server: p.source.server, resource: resource, namespace: f.key.Namespace, observer: f, clock: p.source.cfg.Clock,
	}}
	backoff := p.source.backoff
	for fresh := true; ctx.Err() == nil; {
		var pause time.Duration
		again := f.again
		if looks.next(ctx, fresh) {
			backoff, fresh = p.source.backoff, false
			pause = wait.Jitter(p.every(ctx), spread)
		} else {
			// Pods that come don't have a server asked sooner that is in trouble. What was to be fresh still is.
			again, pause = nil, backoff.Step()
		}
		timer := p.source.cfg.Clock.NewTimer(pause)
		select {
		case <-timer.C():
		case <-again:
			fresh = true
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// looks are those at one object, one after the other.
type looks struct {
	f *follower
	r *reader
	// version is that of the object at the last look; empty if there was none.
	version string
}

// next asks for the object, and tells whether there was an answer. One that isn't fresh may come from the server's cache, as that costs
// little; but what the object has been before, or that it is gone, isn't taken from there.
func (l *looks) next(ctx context.Context, fresh bool) bool {
	if !fresh && l.version != "" {
		object, err := l.r.get(ctx, l.f.key.Name, "0")
		switch version := versionOf(object); {
		case err != nil && !apierrors.IsNotFound(err):
			return false
		case err == nil && !older(version, l.version):
			l.take(object, version)
			return true
		}
	}
	object, err := l.r.get(ctx, l.f.key.Name, "")
	switch {
	case err == nil:
		l.take(object, versionOf(object))
	case apierrors.IsNotFound(err):
		l.version = ""
		l.f.tell("", nil)
	default:
		return false
	}
	return true
}

func (l *looks) take(object runtime.Object, version string) {
	l.version = version
	_ = l.f.put(object) // It logs what it can't take.
}

func versionOf(object runtime.Object) string {
	if o, err := meta.Accessor(object); err == nil {
		return o.GetResourceVersion()
	}
	return ""
}

// older tells whether a version comes before another one. Of those that aren't as Kubernetes has them none does.
func older(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}
