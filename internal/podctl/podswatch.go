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

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// statusRemoved: podexecd has nothing of the pod any more.
const statusRemoved = "Removed"

// podsWatcher prints the pods of podexecd, and then each change, across any number of connections.
type podsWatcher struct {
	tool   *tool
	filter *podconfigv1.PodFilter
	// table is nil for documents.
	table     *table
	documents *documents

	// shown are the pods as they were printed last, by UID.
	shown map[string]*podexecv1.ObservedPod
	// token is the place after what was printed.
	token string
	// live is set once the current stream has brought something; connected, once any has.
	live, connected bool
	// broken is set from a reported break until the next stream is live.
	broken bool
}

func (t *tool) newPodsWatcher(o podsOptions) *podsWatcher {
	w := &podsWatcher{tool: t, filter: o.filter(), shown: map[string]*podexecv1.ObservedPod{}}
	if t.output.isTable() {
		w.table = t.newPodTable()
	} else {
		w.documents = &documents{out: t.Stdout, output: t.output, stream: true}
	}
	return w
}

// run watches until ctx is done, which is not an error, or until there is no point in trying again.
func (w *podsWatcher) run(ctx context.Context) error {
	delays := (&watcher{tool: w.tool}).newBackoff()
	backoff := delays
	for {
		err := w.subscribe(ctx)
		var own ownError
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // The user has ended it: that is no failure.
		case errors.As(err, &own):
			return own.error
		case !w.connected || hopeless(err):
			return err
		}
		if w.live {
			backoff = delays
			w.broken = true
			w.tool.note("%v; reconnecting", err)
		}
		timer := w.tool.Clock.NewTimer(backoff.Step())
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// subscribe follows one stream to its end, from where the last one left off.
func (w *podsWatcher) subscribe(ctx context.Context) error {
	conn, err := w.tool.podexecd.connect(w.tool.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.live = false
	stream, err := podexecv1.NewPodExecServiceClient(conn).WatchPodStatus(ctx, &podexecv1.WatchPodStatusRequest{
		Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, Filter: w.filter, ResumeToken: w.token,
	})
	if err == nil {
		err = w.follow(stream)
	}
	switch {
	case errors.As(err, new(ownError)):
		return err
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s at %s ended the stream", conn.daemon.name, &conn.daemon.endpoint)
	}
	return conn.explain(err)
}

// follow prints what a stream brings until it ends; the error says why and is never nil. What comes without a resume token is printed
// once all of it is there: a break before that takes it back.
func (w *podsWatcher) follow(stream grpc.ServerStreamingClient[podexecv1.WatchPodStatusResponse]) error {
	var pending []*podexecv1.WatchPodStatusResponse
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		w.arrived()
		pending = append(pending, m)
		// Synced always ends a catch-up.
		if m.GetResumeToken() == "" && m.GetSynced() == nil {
			continue
		}
		if err := w.take(pending); err != nil {
			return ownError{err}
		}
		pending, w.token = nil, m.GetResumeToken()
	}
}

func (w *podsWatcher) arrived() {
	w.live, w.connected = true, true
	if w.broken {
		w.broken = false
		w.tool.note("connected to podexecd again")
	}
}

// take prints messages that belong together, sorted as lists are.
func (w *podsWatcher) take(messages []*podexecv1.WatchPodStatusResponse) error {
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
		return w.table.flush()
	}
	return nil
}

// show prints one pod, or that it is gone, unless that is what was printed last.
func (w *podsWatcher) show(uid string, pod *podexecv1.ObservedPod) error {
	before := w.shown[uid]
	if proto.Equal(before, pod) {
		return nil
	}
	if pod == nil {
		delete(w.shown, uid)
		return w.print(&pair{ref: before.GetRef(), observed: before}, podRow{status: statusRemoved})
	}
	w.shown[uid] = pod
	pairs, errs := join(nil, []*podexecv1.ObservedPod{pod})
	for _, err := range errs {
		w.tool.noteErrors(err)
	}
	return w.print(pairs[0], pairs[0].row(answered{podexecd: true}, w.tool.Clock.Now()))
}

func (w *podsWatcher) print(p *pair, r podRow) error {
	if w.table == nil {
		doc := p.document(r)
		if r.status == statusRemoved {
			doc.Observed = nil
		}
		return w.documents.print(doc)
	}
	w.table.pod(p, r, w.tool.output == outputWide)
	return nil
}
