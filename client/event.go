package client

import (
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Op is an operation on the pods of a Change. podconfig.v1.PodOperation defines the meanings.
type Op = podconfigv1.PodOperation

// The ops that a consumer receives. The client turns a SET into these.
const (
	Add       = podconfigv1.PodOperation_POD_OPERATION_ADD
	Update    = podconfigv1.PodOperation_POD_OPERATION_UPDATE
	Delete    = podconfigv1.PodOperation_POD_OPERATION_DELETE
	Remove    = podconfigv1.PodOperation_POD_OPERATION_REMOVE
	Reconcile = podconfigv1.PodOperation_POD_OPERATION_RECONCILE
	Restore   = podconfigv1.PodOperation_POD_OPERATION_RESTORE
)

// Event is one revision, one catch-up, or the end of the initial state. An event with only a Cursor means that
// revisions passed that had no change for this consumer.
type Event struct {
	// Ops are applied in this order, all or none.
	Ops []Change
	// Synced is true on the event that ends the initial state of a stream. That event has no Ops. It comes again
	// after each reconnect.
	Synced bool
	// Sources is the readiness of all configured sources, in order of priority. A source that isn't listed isn't
	// configured any more. Sources is set, though it may be empty, on Synced events, and on the event of a heartbeat
	// after which the sources, their order, their readiness, or which of them are held differ. It holds once the Ops are applied, and
	// overrules their SourceReady. Nil means no change.
	Sources []Source
	// Cursor is the consumer's position once it has applied the event. Store it as a whole: the positions in it keep a
	// podconfigd that is behind from taking the consumer back, also after a restart.
	Cursor *podconfigv1.Cursor
}

// Change is one op and its pods.
type Change struct {
	Op Op
	// Source is the name of the source that caused the change.
	Source string
	// SourceReady reports whether that source is ready: all its pods are known.
	SourceReady bool
	// Pods is empty only in the ADD by which a source becomes ready.
	Pods []Pod
	// Observed is the time at which podconfigd read the change. It is zero in a catch-up.
	Observed time.Time
	// TraceParent and TraceState are the W3C trace context of the change. They are empty if the change isn't traced.
	TraceParent, TraceState string
}

// Pod is one pod of a Change. Source is the source that the pod comes from.
type Pod struct {
	UID             types.UID
	Namespace, Name string
	Source          string
	// Stale reports whether the pod is known only from podconfigd's store: its source hasn't confirmed it since the
	// restart.
	Stale bool
	// SpecDigest and StatusDigest identify the version of the pod, as podconfig.v1.Pod defines them.
	SpecDigest, StatusDigest string
	// Object is the decoded pod. It is nil in a Remove. The consumer may change it.
	Object *v1.Pod
}

// Source is the name and the readiness of one configured source.
type Source struct {
	Name  string
	Ready bool
	// HeldReason is why podconfigd sends nothing of the source now: it is behind the consumer, or can't tell. The
	// source isn't ready then. Empty: it sends all.
	HeldReason string
}

// maxHeldReason bounds Source.HeldReason, in bytes.
const maxHeldReason = 512

// errUnknownFormat: podconfigd is newer than this package, or ignored the requested format.
var errUnknownFormat = errors.New("not the requested format")

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
		return Pod{}, fmt.Errorf("%w: decode pod %.64s/%.64s: %w", errContent, p.Namespace, p.Name, err)
	}
	// A REMOVE has only the reference: a consumer that holds another pod by it would never remove that one.
	if o := p.Object; o.UID != p.UID || o.Namespace != p.Namespace || o.Name != p.Name {
		return Pod{}, fmt.Errorf("%w: pod %.64q, %.64q, %.64q came as %.64q, %.64q, %.64q", errContent,
			p.Namespace, p.Name, p.UID, o.Namespace, o.Name, o.UID)
	}
	return p, nil
}

func decodeSources(list []*podconfigv1.SourceReadiness) []Source {
	out := make([]Source, 0, len(list))
	for _, s := range list {
		held := s.GetHeldReason()
		if len(held) > maxHeldReason {
			held = strings.ToValidUTF8(held[:maxHeldReason], "") + "…"
		}
		out = append(out, Source{Name: s.GetName(), Ready: s.GetReady() && held == "", HeldReason: held})
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
