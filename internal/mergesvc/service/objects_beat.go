package service

import (
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// beat sends a heartbeat, with a cursor if revisions without changes for the consumer were published.
func (w *objectWatch) beat() error {
	var cursor *podconfigv1.Cursor
	if w.at.Load() > w.sentCursor {
		cursor = w.cursor()
	}
	if err := w.out.send(w.heartbeatOf(cursor)); err != nil || cursor == nil {
		return err
	}
	w.arrived(cursor)
	return nil
}

func (w *objectWatch) heartbeatOf(cursor *podconfigv1.Cursor) *podconfigv1.WatchObjectsResponse {
	return &podconfigv1.WatchObjectsResponse{
		Event: &podconfigv1.WatchObjectsResponse_Heartbeat{Heartbeat: &podconfigv1.Heartbeat{
			Revision: w.at.Load(), Sources: w.sources, Path: w.path(),
		}},
		Cursor: cursor,
	}
}

// path is the path as the consumer sees it.
func (w *objectWatch) path() []*podconfigv1.RelayHop {
	return w.server.pathFor(w.caller, w.view.Sources(w.server.history.Sources()))
}

// cursor is the consumer's position.
func (w *objectWatch) cursor() *podconfigv1.Cursor {
	c := &podconfigv1.Cursor{InstanceId: w.objects.Instance(), Revision: w.at.Load(), View: w.hash}
	if len(w.lacking) > 0 {
		c.View += heldView
	}
	return c
}

// arrived records the cursor that was sent.
func (w *objectWatch) arrived(cursor *podconfigv1.Cursor) {
	w.sentCursor = cursor.GetRevision()
	w.consumer.cursor.Store(cursor)
}
