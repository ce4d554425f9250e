package revision

import (
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client/position"
)

// Op is an operation on the pods of one Change, numbered as podconfig.v1.PodOperation.
type Op int32

// The ops have the meaning of the kubelet's PodUpdate.Op.
const (
	SET Op = iota + 1
	ADD
	DELETE
	REMOVE
	UPDATE
	RECONCILE
	RESTORE
)

// Revision is the result of one merge that changed something.
type Revision struct {
	// Instance is the instance that it is published under. The history sets it.
	Instance string
	// Number rises by one from revision to revision; the first is 1.
	Number uint64
	// Source is the source whose set was merged. Empty if Sources are set.
	Source string
	// SourceReady reports whether Source is ready after this revision.
	SourceReady bool
	// BecameReady is set on the revision that made Source ready.
	BecameReady bool
	// Observed is when the source was read, or the Sources were configured.
	Observed time.Time
	// Changes are the ops in the order in which consumers get them: REMOVE, ADD, UPDATE, DELETE, RESTORE, the empty
	// ADD, RECONCILE.
	Changes []Change
	// Settled are new versions of pods that no op reports to consumers: their source was read and they are no longer
	// stale, or they are in another origin now.
	Settled []*Pod
	// Sources are the configured sources from this revision on, in order of priority. Nil: unchanged. If set, they
	// are the reason of the revision, which may have no ops.
	Sources []string
	// Changed are the positions of Source, and of the sources of its Changes, after this revision. Others are as before.
	Changed position.Positions
	// Positions are those of all sources after this revision. The history sets them.
	Positions position.Positions
	// Dropped are the sources whose record of having been ready is void: sources that this revision removes,
	// including former ones that only the store had, and those of Sources that start again.
	Dropped []string
	// Published is when it was published. The Hub sets it.
	Published time.Time
	// Trace is the trace of the change. The zero value: none.
	Trace Trace

	// first is the first result of Shared, which most calls are for; shared are the others.
	first  atomic.Pointer[sharedSlot]
	shared sync.Map
}

// Shared returns the result of build for that key, which is built once for all consumers. Keys are comparable values
// of the caller's own type.
func (r *Revision) Shared(key any, build func() any) any {
	s := r.slot(key)
	if s == nil {
		s = &sharedSlot{key: key}
		if !r.first.CompareAndSwap(nil, s) {
			s = r.orFirst(s)
		}
	}
	s.once.Do(func() {
		value := build()
		s.value.Store(&value)
	})
	if value := s.value.Load(); value != nil {
		return *value
	}
	return nil
}

// Made returns the result of Shared for that key, or nil if there is none yet.
func (r *Revision) Made(key any) any {
	if s := r.slot(key); s != nil {
		if value := s.value.Load(); value != nil {
			return *value
		}
	}
	return nil
}

// slot returns the slot of a key, or nil if there is none yet.
func (r *Revision) slot(key any) *sharedSlot {
	if s := r.first.Load(); s == nil || s.key == key {
		return s
	}
	if s, ok := r.shared.Load(key); ok {
		return s.(*sharedSlot)
	}
	return nil
}

// orFirst returns the slot of s's key, which is s if there is none yet. There is a first slot.
func (r *Revision) orFirst(s *sharedSlot) *sharedSlot {
	if first := r.first.Load(); first.key == s.key {
		return first
	}
	slot, _ := r.shared.LoadOrStore(s.key, s)
	return slot.(*sharedSlot)
}

// sharedSlot is one result of Shared.
type sharedSlot struct {
	key   any
	once  sync.Once
	value atomic.Pointer[any]
}

// Trace is the W3C Trace Context of a change, as podconfig.v1.TraceContext.
type Trace struct{ Parent, State string }

// Change is one op of a revision.
type Change struct {
	Op Op
	// Source is the source of the pods. It differs from Revision.Source where a set of one source released a name to
	// another source's pod.
	Source string
	// Pods is empty only in the ADD that reports that the source became ready.
	Pods []*Pod
	// Was are the versions that Pods replace, one for each, in an UPDATE, DELETE or RECONCILE of a revision. It is
	// nil in every other change: the Pods of a REMOVE are the last versions.
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
	shown shown
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
