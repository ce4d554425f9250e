package objects

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Why an object isn't available.
var (
	// ErrMissing: podconfigd says that the object doesn't exist.
	ErrMissing = errors.New("it doesn't exist")
	// ErrUnknown: podconfigd hasn't sent the object, or has withdrawn it because no pod refers to it, and none has read it.
	ErrUnknown = errors.New("podconfigd hasn't sent it yet")
)

// maxBytes bounds what a podconfigd can have podexecd keep of a revision without end, and of objects without end.
const maxBytes = 256 << 20

// maxWithdrawn bounds the bytes of the objects that podconfigd has removed and that pods here still read.
const maxWithdrawn = 64 << 20

// Ref names an object. The pods of a source refer to objects of that source only.
type Ref = client.ObjectRef

// The kinds of objects.
const (
	ConfigMap = client.ConfigMapKind
	Secret    = client.SecretKind
	Claim     = client.ClaimKind
	Volume    = client.VolumeKind
	Driver    = client.DriverKind
)

// Config configures Objects.
type Config struct {
	// Watch delivers the objects: client.Client's WatchObjects.
	Watch func(context.Context, client.ObjectOptions, func(context.Context, client.ObjectEvent) error) error
	// Filter selects the pods whose objects are received. Nil: all pods.
	Filter *podconfigv1.PodFilter
	// Logger gets a line for each object that doesn't exist. Nil discards.
	Logger *slog.Logger
}

// Objects are the objects that podconfigd has sent. They are safe for concurrent use.
type Objects struct {
	cfg   Config
	ready chan struct{}

	mu sync.Mutex
	// held has the objects by reference. An object that doesn't exist has no content.
	held    map[Ref]client.Object
	changed map[Ref]bool
	// synced is set once podconfigd has sent all objects for the first time.
	synced bool
	// readers are the pods that have read an object, or have tried to.
	readers map[Ref][]types.UID
	// withdrawn has the sizes of held objects that podconfigd has removed while a pod here reads them: a podconfigd that is
	// behind, or lacks the node, doesn't know that pod, and its containers couldn't start again. The last reader's end drops
	// them. withdrawnBytes is their sum, at most maxWithdrawn.
	withdrawn      map[Ref]int
	withdrawnBytes int
}

// New returns Objects without any object.
func New(cfg Config) *Objects {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Objects{
		cfg: cfg, ready: make(chan struct{}, 1), held: map[Ref]client.Object{}, changed: map[Ref]bool{}, readers: map[Ref][]types.UID{},
		withdrawn: map[Ref]int{},
	}
}

// Run follows podconfigd until ctx ends or the stream fails for good, and returns the reason. The objects stay readable
// after that.
func (o *Objects) Run(ctx context.Context) error {
	opts := client.ObjectOptions{Filter: o.cfg.Filter, Kinds: []client.ObjectKind{Claim, Volume, Driver}, MaxRevisionBytes: maxBytes, MaxBytes: maxBytes}
	return o.cfg.Watch(ctx, opts, func(_ context.Context, e client.ObjectEvent) error {
		o.apply(e)
		return nil
	})
}

// Secret returns the Secret that the pods of a source refer to by this name. It must not be changed. The error is
// ErrMissing or ErrUnknown.
func (o *Objects) Secret(source, namespace, name string) (*v1.Secret, error) {
	object, err := o.get(Ref{Kind: Secret, Source: source, Namespace: namespace, Name: name})
	if err != nil {
		return nil, fmt.Errorf("secret %s/%s: %w", namespace, name, err)
	}
	return object.Secret, nil
}

// ConfigMap is like Secret, for a ConfigMap.
func (o *Objects) ConfigMap(source, namespace, name string) (*v1.ConfigMap, error) {
	object, err := o.get(Ref{Kind: ConfigMap, Source: source, Namespace: namespace, Name: name})
	if err != nil {
		return nil, fmt.Errorf("configmap %s/%s: %w", namespace, name, err)
	}
	return object.ConfigMap, nil
}

// Ready receives when Take has changed objects to return.
func (o *Objects) Ready() <-chan struct{} { return o.ready }

// Take returns the objects that have arrived, changed, or turned out not to exist since the last call, unordered.
func (o *Objects) Take() []Ref {
	o.mu.Lock()
	defer o.mu.Unlock()
	refs := make([]Ref, 0, len(o.changed))
	for ref := range o.changed {
		refs = append(refs, ref)
	}
	clear(o.changed)
	return refs
}

// Claims returns the claims of the stream that exist, of all sources, in no order. known is false until podconfigd has sent all
// objects once.
func (o *Objects) Claims() (claims []Ref, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for ref, object := range o.held {
		if ref.Kind == Claim && !missing(object) {
			claims = append(claims, ref)
		}
	}
	return claims, o.synced
}

func (o *Objects) get(ref Ref) (client.Object, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	object, ok := o.held[ref]
	switch {
	case !ok:
		return client.Object{}, ErrUnknown
	case missing(object):
		return client.Object{}, ErrMissing
	}
	return object, nil
}

// apply applies one event as a whole.
func (o *Objects) apply(e client.ObjectEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, ref := range e.Removed {
		if !o.withdraw(ref) {
			o.drop(ref)
		}
	}
	for _, object := range e.Put {
		o.claim(object.ObjectRef)
		if held, ok := o.held[object.ObjectRef]; !ok || held.Digest != object.Digest {
			o.put(object)
		}
	}
	for _, ref := range e.Missing {
		o.claim(ref)
		if held, ok := o.held[ref]; !ok || !missing(held) {
			o.cfg.Logger.Warn("a pod refers to an object that doesn't exist",
				"kind", ref.Kind, "object", ref.Namespace+"/"+ref.Name, "source", ref.Source)
			o.put(client.Object{ObjectRef: ref})
		}
	}
	o.synced = o.synced || e.Synced
	if len(o.changed) > 0 {
		select {
		case o.ready <- struct{}{}:
		default:
		}
	}
}

func (o *Objects) put(object client.Object) {
	o.held[object.ObjectRef] = object
	o.changed[object.ObjectRef] = true
}

// drop removes an object. It isn't reported as changed: no pod refers to it.
func (o *Objects) drop(ref Ref) {
	o.claim(ref)
	delete(o.held, ref)
	delete(o.changed, ref)
}

// withdraw keeps an object that podconfigd has removed until no pod reads it any more, and reports whether it does. It
// isn't kept beyond maxWithdrawn.
func (o *Objects) withdraw(ref Ref) bool {
	object, held := o.held[ref]
	if _, again := o.withdrawn[ref]; again {
		return true
	}
	size := sizeOf(object)
	if !held || missing(object) || len(o.readers[ref]) == 0 || o.withdrawnBytes+size > maxWithdrawn {
		return false
	}
	o.withdrawn[ref] = size
	o.withdrawnBytes += size
	return true
}

// claim ends that an object is withdrawn.
func (o *Objects) claim(ref Ref) {
	o.withdrawnBytes -= o.withdrawn[ref]
	delete(o.withdrawn, ref)
}

func sizeOf(o client.Object) int {
	switch {
	case o.ConfigMap != nil:
		return o.ConfigMap.Size()
	case o.Secret != nil:
		return o.Secret.Size()
	case o.Claim != nil:
		return o.Claim.Size()
	case o.Volume != nil:
		return o.Volume.Size()
	case o.Driver != nil:
		return o.Driver.Size()
	}
	return 0
}

func missing(o client.Object) bool {
	return o.ConfigMap == nil && o.Secret == nil && o.Claim == nil && o.Volume == nil && o.Driver == nil
}
