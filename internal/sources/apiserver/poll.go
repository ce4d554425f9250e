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

// spread is how much is added at random to the time between two readings of an object: at most half of it, as with
// the time between a pod's syncs.
const spread = 0.5

// polling reads each object periodically.
type polling struct {
	source *Source
	// every is how long a reading is valid.
	every func(context.Context) time.Duration
}

func (p polling) follow(ctx context.Context, f *follower) {
	resource, _ := kindOf(f.key.Kind)
	looks := &looks{f: f, r: &reader{
		server: p.source.server, resource: resource, namespace: f.key.Namespace, observer: f, clock: p.source.cfg.Clock,
		gate: p.source.gate,
	}}
	backoff := p.source.backoff
	for fresh := true; ctx.Err() == nil; {
		var pause time.Duration
		again := f.again
		if looks.next(ctx, fresh) {
			backoff, fresh = p.source.backoff, false
			pause = wait.Jitter(p.every(ctx), spread)
		} else {
			// New pods don't cause earlier requests to a server that fails. The next reading still has to be fresh.
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

// looks are the readings of one object, one after the other.
type looks struct {
	f *follower
	r *reader
	// version is the version of the object at the last reading; empty if it didn't exist.
	version string
}

// next reads the object, and reports whether there was an answer. A reading that isn't fresh may come from the
// server's cache, which costs little; but an older version, or that the object is gone, isn't accepted from there.
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
		l.f.report("", nil)
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

// older reports whether a version precedes another one. It is false for versions that aren't in Kubernetes' form.
func older(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}
