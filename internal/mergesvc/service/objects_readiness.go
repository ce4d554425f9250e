package service

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/mergesvc/objects"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// unknownObjects are, by source, what the consumer sees and nobody knows: the source isn't ready before there are none left.
type unknownObjects map[string]map[objects.Ref]bool

// settle takes out what the changes tell, and tells whether they may have told the last one of a source.
func (u unknownObjects) settle(changes []objects.Change) (last bool) {
	for _, c := range changes {
		if left := u[c.Ref.Source]; left[c.Ref] {
			delete(left, c.Ref)
			last = last || len(left) == 0
		}
	}
	return last
}

// readinessAfter is which sources are ready after a revision; news is set if the consumer was told otherwise. It looks at all that the
// consumer sees only where the revision may have made the difference.
func (w *objectWatch) readinessAfter(d objects.Delta) (sources []*podconfigv1.SourceReadiness, news bool) {
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

// readiness is that of the sources that the consumer sees: one is ready if its pods are known, and all objects that they refer to;
// once it is, further objects that pods begin to refer to don't make it unready again.
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
	for _, told := range w.sources {
		if told.GetReady() {
			delete(w.unknown, told.GetName())
		}
	}
	sources, _ := w.server.history.SourcesAt(now.Pods)
	var out []*podconfigv1.SourceReadiness
	for _, src := range w.view.Sources(sources) {
		out = append(out, &podconfigv1.SourceReadiness{Name: src.Name, Ready: src.ReadyAt(now.Pods) && len(w.unknown[src.Name]) == 0})
	}
	return out
}
