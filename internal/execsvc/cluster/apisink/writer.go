package apisink

import (
	"context"
	"log/slog"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// writer is a record.EventSink that stops when its context ends, and logs once that a namespace's events can't be
// sent. One goroutine of the broadcaster uses it.
type writer struct {
	ctx    context.Context //nolint:containedctx // the methods of record.EventSink have none
	client rest.Interface
	log    *slog.Logger
	// failing are the namespaces whose last event couldn't be sent.
	failing map[string]bool
}

// Create is part of record.EventSink.
func (w *writer) Create(event *v1.Event) (*v1.Event, error) {
	sent, err := w.send(w.client.Post().Body(event), event)
	w.note(event, err)
	return sent, err
}

// Update is part of record.EventSink.
func (w *writer) Update(event *v1.Event) (*v1.Event, error) {
	sent, err := w.send(w.client.Put().Name(event.Name).Body(event), event)
	w.note(event, err)
	return sent, err
}

// Patch is part of record.EventSink. It creates an event that no longer exists again.
func (w *writer) Patch(event *v1.Event, data []byte) (*v1.Event, error) {
	sent, err := w.send(w.client.Patch(types.StrategicMergePatchType).Name(event.Name).Body(data), event)
	if !apierrors.IsNotFound(err) {
		w.note(event, err)
	}
	return sent, err
}

// send sends a request about the event.
func (w *writer) send(request *rest.Request, event *v1.Event) (*v1.Event, error) {
	sent := &v1.Event{}
	err := request.Namespace(event.Namespace).Resource("events").Do(w.ctx).Into(sent)
	return sent, err
}

func (w *writer) note(event *v1.Event, err error) {
	namespace := event.Namespace
	switch {
	case w.ctx.Err() != nil, apierrors.IsAlreadyExists(err), apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause):
	case err == nil && w.failing[namespace]:
		delete(w.failing, namespace)
		w.log.Info("events of pods can be sent to the API server again", "namespace", namespace)
	case err != nil && !w.failing[namespace]:
		w.failing[namespace] = true
		w.log.Warn("events of pods can't be sent to the API server; they are retried for a while and then dropped, and podctl events shows them",
			"namespace", namespace, "pod", event.InvolvedObject.Namespace+"/"+event.InvolvedObject.Name,
			"uid", event.InvolvedObject.UID, "reason", event.Reason, "error", err)
	}
}
