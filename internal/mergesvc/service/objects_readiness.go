package service

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/mergesvc/objects"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// unknownObjects are, by source, the objects that the consumer sees and whose state is unknown. A source isn't ready
// while it has any.
type unknownObjects map[string]map[objects.Ref]bool

// settle removes the objects of the changes, and reports whether a source may have none left.
func (u unknownObjects) settle(changes []objects.Change) (last bool) {
	for _, c := range changes {
		if left := u[c.Ref.Source]; left[c.Ref] {
			delete(left, c.Ref)
			last = last || len(left) == 0
		}
	}
	return last
}

// readinessAfter returns which sources are ready after a revision; changed is set if that differs from what was sent. It
// looks at all that the consumer sees only if the revision may have made a difference.
func (w *objectWatch) readinessAfter(d objects.Delta) (sources []*podconfigv1.SourceReadiness, changed bool) {
	if last := w.unknown.settle(d.Changes); !w.synced.Load() || !last && !d.Ready {
		return nil, false
	}
	now, ok := w.objects.At(d.Number, w.scope)
	if !ok {
		return nil, false
	}
	sources = w.readiness(now)
	return sources, !slices.EqualFunc(sources, w.sources, func(a, b *podconfigv1.SourceReadiness) bool { return proto.Equal(a, b) })
}

// readiness returns the readiness of the sources that the consumer sees. A source is ready if its pods are known, and
// all objects that they refer to. It stays ready when pods begin to refer to further objects.
func (w *objectWatch) readiness(now objects.Snapshot) []*podconfigv1.SourceReadiness {
	w.unknown = unknownObjects{}
	for _, item := range now.Items {
		if item.State != objects.Unknown {
			continue
		}
		if w.unknown[item.Ref.Source] == nil {
			w.unknown[item.Ref.Source] = map[objects.Ref]bool{}
		}
		w.unknown[item.Ref.Source][item.Ref] = true
	}
	for _, reported := range w.sources {
		if reported.GetReady() {
			delete(w.unknown, reported.GetName())
		}
	}
	sources, _ := w.server.history.SourcesAt(now.Pods)
	var out []*podconfigv1.SourceReadiness
	for _, src := range w.view.Sources(sources) {
		ready := src.ReadyAt(now.Pods) && len(w.unknown[src.Name]) == 0 && !w.lacking[src.Name]
		out = append(out, &podconfigv1.SourceReadiness{Name: src.Name, Ready: ready})
	}
	return out
}
