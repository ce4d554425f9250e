package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources"
	"github.com/podstream/podstream/internal/sources/reason"
)

// follower is where a strategy puts one object. One goroutine at a time uses it, except for stop.
type follower struct {
	key     sources.ObjectKey
	stop    context.CancelFunc
	updates *updates
	// again has a token if the object has to be read now.
	again chan struct{}
	log   *slog.Logger

	// reported: a value was reported. version is its version, empty if the object doesn't exist.
	reported bool
	version  string
	// refused is the reason that was logged.
	refused string
	// done: it isn't followed any more, and nothing more is reported of it. Only RunObjects' goroutine uses it.
	done bool
}

var _ cache.ReflectorStore = (*follower)(nil)

// Add takes the object.
func (f *follower) Add(obj any) error { return f.put(obj) }

// Update takes the object.
func (f *follower) Update(obj any) error { return f.put(obj) }

// Delete reports that the object doesn't exist.
func (f *follower) Delete(obj any) error {
	if meta, ok := obj.(metav1.Object); ok && f.is(meta) {
		f.report("", nil)
	}
	return nil
}

// Replace takes the object, if it is in the list.
func (f *follower) Replace(list []any, _ string) error {
	for _, obj := range list {
		if meta, ok := obj.(metav1.Object); ok && f.is(meta) {
			return f.put(obj)
		}
	}
	f.report("", nil)
	return nil
}

// Resync does nothing; a reflector without a period never calls it.
func (f *follower) Resync() error { return nil }

// listing is part of observer, as are opened and failed.
func (f *follower) listing() {}

func (f *follower) opened(bool) {}

// failed logs what isn't a failure of the server: Run reports those.
func (f *follower) failed(err error) {
	if !apierrors.IsForbidden(err) {
		return
	}
	f.refuse("it can't be read", err)
}

func (f *follower) put(obj any) error {
	meta, ok := obj.(metav1.Object)
	if !ok || !f.is(meta) {
		return nil
	}
	meta.SetManagedFields(nil)
	version := string(meta.GetUID()) + " " + meta.GetResourceVersion()
	if f.reported && f.version == version {
		return nil
	}
	object, err := asObject(obj)
	if err != nil {
		// The last reported value stays.
		f.refuse("it can't be used", err)
		return nil
	}
	f.report(version, object)
	return nil
}

func (f *follower) report(version string, object *manifest.Object) {
	if f.reported && f.version == version {
		return
	}
	f.reported, f.version, f.refused = true, version, ""
	f.updates.put(f, object)
}

func (f *follower) refuse(what string, err error) {
	why := reason.Of(err)
	if f.refused == why {
		return
	}
	f.refused = why
	f.log.Warn("object isn't followed now", "reason", what, "error", err)
}

func (f *follower) is(meta metav1.Object) bool {
	return meta.GetNamespace() == f.key.Namespace && meta.GetName() == f.key.Name
}

func asObject(obj any) (*manifest.Object, error) {
	switch o := obj.(type) {
	case *v1.ConfigMap:
		o.TypeMeta = metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}
		return manifest.NewConfigMap(o)
	case *v1.Secret:
		o.TypeMeta = metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"}
		return manifest.NewSecret(o)
	default:
		return nil, fmt.Errorf("it is a %T", obj)
	}
}

// updates has the last value of each object since they were taken; nil is one that doesn't exist.
type updates struct {
	signal chan struct{}

	mu     sync.Mutex
	values map[*follower]*manifest.Object
}

func newUpdates() *updates {
	return &updates{signal: make(chan struct{}, 1), values: map[*follower]*manifest.Object{}}
}

func (n *updates) put(from *follower, value *manifest.Object) {
	n.mu.Lock()
	n.values[from] = value
	n.mu.Unlock()
	select {
	case n.signal <- struct{}{}:
	default:
	}
}

func (n *updates) take() map[*follower]*manifest.Object {
	n.mu.Lock()
	defer n.mu.Unlock()
	taken := n.values
	n.values = map[*follower]*manifest.Object{}
	return taken
}
