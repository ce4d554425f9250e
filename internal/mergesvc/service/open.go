package service

import (
	"unique"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/mergesvc/history"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// open checks the request, and registers the stream. close reverts it, also after an error.
func (w *watch) open(
	req *podconfigv1.WatchPodUpdatesRequest, stream grpc.ServerStreamingServer[podconfigv1.WatchPodUpdatesResponse],
) error {
	s := w.server
	caller, err := callerOf(stream.Context())
	if err != nil {
		return err
	}
	w.out = sender{stream: stream, slot: s.work.slotFor(stream.Context(), caller), clock: s.clock}
	if err := w.out.slot.hold(); err != nil {
		return err
	}
	sub, err := newSubscription(stream.Context(), req)
	if err != nil {
		return err
	}
	if w.kept, err = keep(s.kept, sub, sub.knownSize); err != nil {
		return err
	}
	// The streams of root and podconfigd's own user are woken for a revision before the others.
	w.reader = s.history.NewReader(history.ReaderConfig{Nodes: sub.view.Nodes(), Later: !isOwner(sub.caller)})
	if w.consumer, err = s.consumers.add(sub, w.reader); err != nil {
		return err
	}
	if sub.view.Redacted() {
		w.inspected = s.history.Inspect()
	}
	w.out.consumer, w.log = w.consumer, s.lines.logger(sub.caller, sub.name)
	// The streams of one key have the same pointer, so that a revision finds what it shares without comparing strings.
	w.sharing, w.everything = unique.Make(sharedKey{sub.encoding, sub.view.Hash()}), sub.view.Everything()
	w.shown = sub.view
	w.interval, w.scoped = sub.heartbeat, caller.Nodes != nil || caller.Sources != nil
	return nil
}

// close reverts open.
func (w *watch) close() {
	if w.inspected != nil {
		w.inspected()
	}
	if w.consumer != nil {
		w.server.consumers.remove(w.consumer)
	}
	if w.reader != nil {
		w.reader.Close()
	}
	w.kept.end()
	w.out.slot.release()
}

func (w *watch) gone(err error) {
	w.log.Info("consumer is gone", "revision", w.at.Load(), "error", err)
}
