package client

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Op is what happened to the pods of a Change; the names and meanings are podconfig.v1.PodOperation's.
type Op = podconfigv1.PodOperation

// The ops that a consumer meets. SET isn't among them: the client turns it into the others.
const (
	Add       = podconfigv1.PodOperation_POD_OPERATION_ADD
	Update    = podconfigv1.PodOperation_POD_OPERATION_UPDATE
	Delete    = podconfigv1.PodOperation_POD_OPERATION_DELETE
	Remove    = podconfigv1.PodOperation_POD_OPERATION_REMOVE
	Reconcile = podconfigv1.PodOperation_POD_OPERATION_RECONCILE
	Restore   = podconfigv1.PodOperation_POD_OPERATION_RESTORE
)

// Event is one revision, one catch-up after a pause, or the word that the initial state is complete.
type Event struct {
	// Ops are in the order in which they are to be applied; all or none.
	Ops []Change
	// Synced is set on an event that ends the initial state of a stream; it has no Ops. It comes again after each reconnect.
	Synced bool
	// Sources is the readiness of all configured sources, in order of priority. It is set on Synced events only.
	Sources []Source
	// Cursor is where the consumer is once it has applied the event.
	Cursor *podconfigv1.Cursor
}

// Change is one op and its pods.
type Change struct {
	Op Op
	// Source is the source that caused it.
	Source string
	// SourceReady tells whether that source is ready: its pods are complete.
	SourceReady bool
	// Pods is empty only in the ADD that says that the source became ready.
	Pods []Pod
	// Observed is when podconfigd read the change; zero in a catch-up.
	Observed time.Time
}

// Pod is one pod of a Change.
type Pod struct {
	UID             types.UID
	Namespace, Name string
	Source          string
	// Stale is set if the pod is known only from podconfigd's store.
	Stale bool
	// SpecDigest and StatusDigest tell versions of the pod apart.
	SpecDigest, StatusDigest string
	// Object is the pod itself. Nil for REMOVE. It belongs to the consumer.
	Object *v1.Pod
}

// Source is the readiness of one configured source.
type Source struct {
	Name  string
	Ready bool
}

func decodeChange(u *podconfigv1.PodUpdate) (Change, error) {
	c := Change{Op: u.GetOp(), Source: u.GetSource(), SourceReady: u.GetSourceReady()}
	if u.GetObservedTime() != nil {
		c.Observed = u.GetObservedTime().AsTime()
	}
	for _, m := range u.GetPods() {
		p, err := decodePod(m, u.GetOp() != Remove)
		if err != nil {
			return Change{}, err
		}
		c.Pods = append(c.Pods, p)
	}
	return c, nil
}

func decodePod(m *podconfigv1.Pod, content bool) (Pod, error) {
	p := Pod{
		UID: types.UID(m.GetRef().GetUid()), Namespace: m.GetRef().GetNamespace(), Name: m.GetRef().GetName(),
		Source: m.GetSource(), Stale: m.GetStale(), SpecDigest: m.GetSpecDigest(), StatusDigest: m.GetStatusDigest(),
	}
	if !content {
		return p, nil
	}
	encoded, ok := m.GetContent().(*podconfigv1.Pod_Protobuf)
	if !ok {
		return Pod{}, fmt.Errorf("pod %s/%s came in another format than the one asked for: %T", p.Namespace, p.Name, m.GetContent())
	}
	p.Object = &v1.Pod{}
	if err := p.Object.Unmarshal(encoded.Protobuf); err != nil {
		return Pod{}, fmt.Errorf("decode pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return p, nil
}

func decodeSources(list []*podconfigv1.SourceReadiness) []Source {
	var out []Source
	for _, s := range list {
		out = append(out, Source{Name: s.GetName(), Ready: s.GetReady()})
	}
	return out
}
