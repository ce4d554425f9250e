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

// follower is where a strategy puts one object. One goroutine at a time uses it, but for stop.
type follower struct {
	key  sources.ObjectKey
	stop context.CancelFunc
	news *news
	// again says that the object is to be looked at now.
	again chan struct{}
	log   *slog.Logger

	// told: something was. version is of what, empty if that was that there is none.
	told    bool
	version string
	// refused is the reason that was logged.
	refused string
	// done: it isn't followed any more, and nothing more is told of it. RunObjects' goroutine alone uses it.
	done bool
}

var _ cache.ReflectorStore = (*follower)(nil)

// Add takes the object.
func (f *follower) Add(obj any) error { return f.put(obj) }

// Update takes the object.
func (f *follower) Update(obj any) error { return f.put(obj) }

// Delete says that there is none.
func (f *follower) Delete(obj any) error {
	if meta, ok := obj.(metav1.Object); ok && f.is(meta) {
		f.tell("", nil)
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
	f.tell("", nil)
	return nil
}

// Resync does nothing; a reflector without a period never calls it.
func (f *follower) Resync() error { return nil }

// listing is part of observer, as are opened and failed.
func (f *follower) listing() {}

func (f *follower) opened(bool) {}

// failed logs what isn't the server's being away: Run tells of that.
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
	if f.told && f.version == version {
		return nil
	}
	object, err := asObject(obj)
	if err != nil {
		// Nothing is told of it. What was told stands.
		f.refuse("it can't be taken", err)
		return nil
	}
	f.tell(version, object)
	return nil
}

func (f *follower) tell(version string, object *manifest.Object) {
	if f.told && f.version == version {
		return
	}
	f.told, f.version, f.refused = true, version, ""
	f.news.put(f, object)
}

func (f *follower) refuse(what string, err error) {
	why := reason.Of(err)
	if f.refused == why {
		return
	}
	f.refused = why
	f.log.Warn("object isn't followed now", "why", what, "err", err)
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

// news is the last value of each object since they were taken; nil is one that doesn't exist.
type news struct {
	signal chan struct{}

	mu     sync.Mutex
	values map[*follower]*manifest.Object
}

func newNews() *news {
	return &news{signal: make(chan struct{}, 1), values: map[*follower]*manifest.Object{}}
}

func (n *news) put(from *follower, value *manifest.Object) {
	n.mu.Lock()
	n.values[from] = value
	n.mu.Unlock()
	select {
	case n.signal <- struct{}{}:
	default:
	}
}

func (n *news) take() map[*follower]*manifest.Object {
	n.mu.Lock()
	defer n.mu.Unlock()
	taken := n.values
	n.values = map[*follower]*manifest.Object{}
	return taken
}
