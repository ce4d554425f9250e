package podctl

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/podctl/podsummary"
	"github.com/podstream/podstream/internal/podctl/render"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// statusRemoved: nothing is left of the pod.
const statusRemoved = "Removed"

// podsWatcher prints podexecd's pods and then each change, across reconnections.
type podsWatcher struct {
	*statusStream
	// table is nil for documents.
	table     *podTable
	documents *render.Documents
}

func (t *tool) newPodsWatcher(q podQuery) *podsWatcher {
	w := &podsWatcher{statusStream: t.newStatusStream(q.filter)}
	w.changed = w.show
	if labelled := t.newLabelled(q.selector); labelled != nil {
		w.choose = func(ctx context.Context, messages []*podexecv1.WatchPodStatusResponse) ([]*podexecv1.WatchPodStatusResponse, error) {
			return labelledOnly(ctx, labelled, messages, func(m *podexecv1.WatchPodStatusResponse) *podconfigv1.PodRef { return m.GetPod().GetRef() })
		}
	}
	if t.output.IsTable() {
		w.table = t.newPodTable(true)
	} else {
		w.documents = t.documentStream("pod")
	}
	return w
}

// show prints the pods that have changed, sorted as lists are.
func (w *podsWatcher) show(before, now podChanges) error {
	ref := func(uid string) *podconfigv1.PodRef { return cmp.Or(now[uid], before[uid]).GetRef() }
	uids := slices.SortedFunc(maps.Keys(now), func(a, b string) int {
		return cmp.Or(cmp.Compare(ref(a).GetNamespace(), ref(b).GetNamespace()),
			cmp.Compare(ref(a).GetName(), ref(b).GetName()), cmp.Compare(a, b))
	})
	for _, uid := range uids {
		if err := w.showPod(before[uid], now[uid]); err != nil {
			return err
		}
	}
	if w.table != nil {
		return w.table.Flush()
	}
	return nil
}

// showPod prints one pod, or its removal, unless that is what was printed last.
func (w *podsWatcher) showPod(before, pod *podexecv1.ObservedPod) error {
	if proto.Equal(before, pod) {
		return nil
	}
	if pod == nil {
		return w.print(&podsummary.Pod{Ref: before.GetRef(), Observed: before}, podsummary.Row{Status: statusRemoved})
	}
	pairs, errs := podsummary.Join(nil, []*podexecv1.ObservedPod{pod})
	for _, err := range errs {
		w.tool.noteErrors(err)
	}
	return w.print(pairs[0], pairs[0].Row(podsummary.Answered{Podexecd: true}, w.tool.Clock.Now()))
}

func (w *podsWatcher) print(p *podsummary.Pod, r podsummary.Row) error {
	if w.table == nil {
		doc := p.Document(r)
		if r.Status == statusRemoved {
			doc.Observed = nil
		}
		return w.documents.Print(doc)
	}
	w.table.row(p, r)
	return nil
}
