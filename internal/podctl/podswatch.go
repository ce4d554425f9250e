package podctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"google.golang.org/grpc"
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
	reconnection
	query podQuery
	// labelled is nil if every pod matches.
	labelled *labelled
	// table is nil for documents.
	table     *podTable
	documents *render.Documents

	// shown are the pods as last printed, by UID.
	shown map[string]*podexecv1.ObservedPod
	// token is the position after the printed changes.
	token string
}

func (t *tool) newPodsWatcher(q podQuery) *podsWatcher {
	w := &podsWatcher{
		reconnection: reconnection{tool: t, daemon: t.podexecd.name}, query: q, labelled: t.newLabelled(q.selector), shown: map[string]*podexecv1.ObservedPod{},
	}
	if t.output.IsTable() {
		w.table = t.newPodTable(true)
	} else {
		w.documents = t.documentStream("pod")
	}
	return w
}

// run watches until ctx ends, or an error that a retry can't resolve.
func (w *podsWatcher) run(ctx context.Context) error {
	return w.reconnect(ctx, w.subscribe, permanent, func(err error) { w.tool.note("%v; reconnecting", err) })
}

// subscribe follows one stream to its end, and resumes after the last one.
func (w *podsWatcher) subscribe(ctx context.Context) error {
	conn, err := w.tool.podexecd.connect(w.tool.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := podexecv1.NewPodExecServiceClient(conn).WatchPodStatus(ctx, &podexecv1.WatchPodStatusRequest{
		Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, Filter: w.query.filter, ResumeToken: w.token,
	})
	if err == nil {
		err = w.follow(stream)
	}
	switch {
	case errors.As(err, new(ownError)), errors.As(err, new(labelError)):
		return err
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s at %s ended the stream", conn.daemon.name, &conn.daemon.endpoint)
	}
	return conn.explain(err)
}

// follow prints a stream until it ends; its error is never nil. Messages without a resume token are printed once the
// catch-up is complete: a break before that discards them.
func (w *podsWatcher) follow(stream grpc.ServerStreamingClient[podexecv1.WatchPodStatusResponse]) error {
	var held []*podexecv1.WatchPodStatusResponse
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		w.arrived()
		held = append(held, m)
		// Synced always ends a catch-up.
		if m.GetResumeToken() == "" && m.GetSynced() == nil {
			continue
		}
		pending, err := labelledOnly(stream.Context(), w.labelled, held, func(m *podexecv1.WatchPodStatusResponse) *podconfigv1.PodRef {
			return m.GetPod().GetRef()
		})
		if err != nil {
			return err
		}
		if err := w.take(pending); err != nil {
			return ownError{err}
		}
		held, w.token = nil, m.GetResumeToken()
	}
}

// take prints messages that belong together, sorted as lists are.
func (w *podsWatcher) take(messages []*podexecv1.WatchPodStatusResponse) error {
	if len(messages) == 0 {
		return nil
	}
	now := map[string]*podexecv1.ObservedPod{} // nil: removed
	for _, m := range messages {
		if removed := m.GetRemoved(); removed != nil {
			now[removed.GetUid()] = nil
		} else if pod := m.GetPod(); pod != nil {
			now[pod.GetRef().GetUid()] = pod
		}
	}
	if synced := messages[len(messages)-1].GetSynced(); synced != nil && !synced.GetResumed() {
		for uid := range w.shown {
			if _, there := now[uid]; !there {
				now[uid] = nil
			}
		}
	}
	ref := func(uid string) *podconfigv1.PodRef { return cmp.Or(now[uid], w.shown[uid]).GetRef() }
	uids := slices.SortedFunc(maps.Keys(now), func(a, b string) int {
		return cmp.Or(cmp.Compare(ref(a).GetNamespace(), ref(b).GetNamespace()),
			cmp.Compare(ref(a).GetName(), ref(b).GetName()), cmp.Compare(a, b))
	})
	for _, uid := range uids {
		if err := w.show(uid, now[uid]); err != nil {
			return err
		}
	}
	if w.table != nil {
		return w.table.Flush()
	}
	return nil
}

// show prints one pod, or its removal, unless that is what was printed last.
func (w *podsWatcher) show(uid string, pod *podexecv1.ObservedPod) error {
	before := w.shown[uid]
	if proto.Equal(before, pod) {
		return nil
	}
	if pod == nil {
		delete(w.shown, uid)
		return w.print(&podsummary.Pod{Ref: before.GetRef(), Observed: before}, podsummary.Row{Status: statusRemoved})
	}
	w.shown[uid] = pod
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
