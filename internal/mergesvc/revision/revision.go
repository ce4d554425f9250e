package revision

import (
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Op is what happened to the pods of one Change, numbered as podconfig.v1.PodOperation.
type Op int32

// The ops, in the meaning of the kubelet's PodUpdate.Op.
const (
	SET Op = iota + 1
	ADD
	DELETE
	REMOVE
	UPDATE
	RECONCILE
	RESTORE
)

// Revision is the outcome of one merge that changed something.
type Revision struct {
	// Instance is the life of the revision numbers that it was published under. Set by whoever publishes it.
	Instance string
	// Number rises by one from revision to revision; the first is 1.
	Number uint64
	// Source is the source whose set was merged. Empty if Sources are set.
	Source string
	// SourceReady tells whether Source is ready after this revision.
	SourceReady bool
	// BecameReady is set on the one revision that made Source ready.
	BecameReady bool
	// Observed is when the source was read, or the Sources were configured.
	Observed time.Time
	// Changes are the ops in the order in which consumers get them: REMOVE, ADD, UPDATE, DELETE, RESTORE, the empty ADD,
	// RECONCILE.
	Changes []Change
	// Settled are new versions of pods of which consumers learn nothing: their source has spoken, and they are no longer stale;
	// or they are found in another origin now.
	Settled []*Pod
	// Sources are the configured sources from this revision on, in order of priority. Nil: as before. Not nil: that is what made
	// the revision; there may be no ops.
	Sources []string
	// Forgotten are the sources of which it is void that they were ready once: those that go with this revision, former ones that only
	// the store knew among them, and those of Sources that begin anew.
	Forgotten []string
	// Published is when it was published. Set by whoever publishes it.
	Published time.Time
	// Trace is the trace that the change belongs to. The zero value: none.
	Trace Trace

	// shared is what was made of it once for all consumers.
	shared sync.Map
}

// Shared returns what build made for that key, for whoever asked first. Keys are comparable values of the caller's own type.
func (r *Revision) Shared(key any, build func() any) any {
	slot, ok := r.shared.Load(key)
	if !ok {
		slot, _ = r.shared.LoadOrStore(key, &sharedSlot{})
	}
	s := slot.(*sharedSlot)
	s.once.Do(func() {
		value := build()
		s.value.Store(&value)
	})
	if value := s.value.Load(); value != nil {
		return *value
	}
	return nil
}

// Made is what Shared made for that key, or nil if nobody has asked yet.
func (r *Revision) Made(key any) any {
	slot, ok := r.shared.Load(key)
	if !ok {
		return nil
	}
	if value := slot.(*sharedSlot).value.Load(); value != nil {
		return *value
	}
	return nil
}

type sharedSlot struct {
	once  sync.Once
	value atomic.Pointer[any]
}

// Trace is the W3C Trace Context of a change, as podconfig.v1.TraceContext.
type Trace struct{ Parent, State string }

// Change is one op of a revision.
type Change struct {
	Op Op
	// Source is the source of the pods. It differs from Revision.Source where one source's set freed a name for another's pod.
	Source string
	// Pods is empty only in the ADD that says that the source became ready.
	Pods []*Pod
	// Was are the versions that Pods replace, one for each, in an UPDATE, DELETE or RECONCILE of a revision. Nil in every other
	// change: the pods of a REMOVE are those that were.
	Was []*Pod
}

// Pod is one version of one pod.
type Pod struct {
	// Object is the pod as consumers get it, with kubernetes.io/config.source and config.seen.
	Object *v1.Pod
	// Source is the source that it comes from.
	Source string
	// Origin is the file, URL item or API object of the source that it comes from.
	Origin string
	// Stale is set if the pod is known only from the store.
	Stale bool
	// SpecDigest and StatusDigest are as podconfig.v1.Pod defines them.
	SpecDigest, StatusDigest string
	// Created, SpecChanged and StatusChanged are the revisions at which the UID appeared, and at which the spec and the
	// status last changed. Created counts as a change of both.
	Created, SpecChanged, StatusChanged uint64

	encoded
}

// UID is the pod's metadata.uid.
func (p *Pod) UID() types.UID { return p.Object.UID }

// FullName is the pod's name_namespace, as the kubelet calls it.
func (p *Pod) FullName() string { return p.Object.Name + "_" + p.Object.Namespace }

// String is namespace/name, for logs.
func (p *Pod) String() string { return p.Object.Namespace + "/" + p.Object.Name }

// String is the op's name as podconfig.v1.PodOperation has it, without the prefix.
func (o Op) String() string {
	switch o {
	case SET:
		return "SET"
	case ADD:
		return "ADD"
	case DELETE:
		return "DELETE"
	case REMOVE:
		return "REMOVE"
	case UPDATE:
		return "UPDATE"
	case RECONCILE:
		return "RECONCILE"
	case RESTORE:
		return "RESTORE"
	default:
		return "UNKNOWN"
	}
}
