package client

import (
	"errors"
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

// Event is one revision, one catch-up after a pause, or the word that the initial state is complete. An event may have nothing but
// a Cursor: then revisions have gone by that held nothing for this consumer.
type Event struct {
	// Ops are in the order in which they are to be applied; all or none.
	Ops []Change
	// Synced is set on an event that ends the initial state of a stream; it has no Ops. It comes again after each reconnect.
	Synced bool
	// Sources is the readiness of all configured sources, in order of priority: one that isn't among them isn't configured any more.
	// It is set, though perhaps empty, on Synced events, and where a heartbeat tells of other sources, another order or another
	// readiness than the stream had before. It is true once the Ops are applied, and overrules their SourceReady. Nil: not told.
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
	// TraceParent and TraceState are the W3C trace context of the change. Empty: it isn't traced.
	TraceParent, TraceState string
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

// errUnknownFormat: podconfigd is newer than this package, or doesn't keep to the request.
var errUnknownFormat = errors.New("another format than the one asked for")

func decodeChanges(ops []*podconfigv1.PodUpdate) ([]Change, error) {
	var out []Change
	for _, u := range ops {
		c := Change{
			Op: u.GetOp(), Source: u.GetSource(), SourceReady: u.GetSourceReady(),
			TraceParent: u.GetTraceContext().GetTraceparent(), TraceState: u.GetTraceContext().GetTracestate(),
		}
		if u.GetObservedTime() != nil {
			c.Observed = u.GetObservedTime().AsTime()
		}
		for _, m := range u.GetPods() {
			p, err := decodePod(m, u.GetOp() != Remove)
			if err != nil {
				return nil, err
			}
			c.Pods = append(c.Pods, p)
		}
		out = append(out, c)
	}
	return out, nil
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
		return Pod{}, fmt.Errorf("pod %s/%s came as %T: %w", p.Namespace, p.Name, m.GetContent(), errUnknownFormat)
	}
	p.Object = &v1.Pod{}
	if err := p.Object.Unmarshal(encoded.Protobuf); err != nil {
		return Pod{}, fmt.Errorf("decode pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return p, nil
}

func decodeSources(list []*podconfigv1.SourceReadiness) []Source {
	out := make([]Source, 0, len(list))
	for _, s := range list {
		out = append(out, Source{Name: s.GetName(), Ready: s.GetReady()})
	}
	return out
}

func knownPods(pods []Pod) []*podconfigv1.KnownPod {
	var out []*podconfigv1.KnownPod
	for _, p := range pods {
		out = append(out, &podconfigv1.KnownPod{
			Uid: string(p.UID), Source: p.Source, Namespace: p.Namespace, Name: p.Name,
			SpecDigest: p.SpecDigest, StatusDigest: p.StatusDigest,
		})
	}
	return out
}
