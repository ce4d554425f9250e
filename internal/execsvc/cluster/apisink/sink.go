package apisink

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/podstream/podstream/internal/execsvc/cluster/apiclient"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
)

// component is the source component of the events: podexecd takes the kubelet's place.
const component = "kubelet"

// Config configures a Sink.
type Config struct {
	// REST is the configuration of the connection to the API server. It isn't changed.
	REST *rest.Config
	// Node is the node's name.
	Node string
	// QPS is the number of events sent per second, and Burst the number sent at once after a pause:
	// KubeletConfiguration's eventRecordQPS and eventBurst. Zero QPS: no limit. Zero Burst means 1.
	QPS   float32
	Burst int
	// Logger receives a message, once for each namespace, when events can't be sent, and when they can again. Nil
	// discards.
	Logger *slog.Logger
}

// Sink is an events.Sink. It is safe for concurrent use.
type Sink struct {
	recorder    record.EventRecorder
	broadcaster record.EventBroadcaster
	cancel      context.CancelFunc
}

// New returns a Sink. It doesn't connect: the first event does. It fails on a REST config that makes no client.
func New(cfg Config) (*Sink, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	config := rest.CopyConfig(cfg.REST)
	// A limiter in the config would take precedence over the limits.
	config.QPS, config.Burst, config.RateLimiter = cfg.QPS, max(cfg.Burst, 1), nil
	if cfg.QPS == 0 {
		// Zero would mean rest's default.
		config.QPS = -1
	}
	client, err := apiclient.New(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for events: %w", err)
	}
	// The writer logs the errors; client-go would log one for each event.
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	s := &Sink{broadcaster: record.NewBroadcaster(record.WithContext(ctx)), cancel: cancel}
	s.recorder = s.broadcaster.NewRecorder(runtime.NewScheme(), v1.EventSource{Component: component, Host: cfg.Node}).
		WithLogger(logr.Discard())
	s.broadcaster.StartRecordingToSink(&writer{ctx: ctx, client: client.Core(), log: cfg.Logger, failing: map[string]bool{}})
	return s, nil
}

// Record is part of events.Sink. It doesn't block.
func (s *Sink) Record(pod *v1.Pod, container, eventType, reason, message string) {
	s.recorder.Event(reference(pod, container), eventType, reason, message)
}

// RecordNode records an event of the Node of that name. The event has the name as the object's UID, as the kubelet's
// events do: `kubectl describe node` finds both. The message is bounded as those of pods. It doesn't block.
func (s *Sink) RecordNode(name, eventType, reason, message string) {
	s.recorder.Event(&v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: name, UID: types.UID(name)}, eventType, reason, events.Presentable(message))
}

// RecordClaim records an event of a claim. The message is bounded as those of pods. It doesn't block.
func (s *Sink) RecordClaim(claim *v1.PersistentVolumeClaim, eventType, reason, message string) {
	s.recorder.Event(&v1.ObjectReference{
		Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
		ResourceVersion: claim.ResourceVersion,
	}, eventType, reason, events.Presentable(message))
}

// Close cancels what is being sent and drops queued events. After it Record does nothing.
func (s *Sink) Close() {
	s.cancel()
	s.broadcaster.Shutdown()
}

// reference returns the object of the event: the pod, or one of its containers. A static pod's UID is the value of
// its mirror pod's annotation kubernetes.io/config.mirror, for which kubectl looks.
func reference(pod *v1.Pod, container string) *v1.ObjectReference {
	return &v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		FieldPath: fieldPath(pod, container),
	}
}

// fieldPath returns the container's path in the pod, as the kubelet writes it. Empty for the whole pod.
func fieldPath(pod *v1.Pod, container string) string {
	if container == "" {
		return ""
	}
	list := "containers"
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == container {
			list = "initContainers"
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == container {
			list = "ephemeralContainers"
		}
	}
	return fmt.Sprintf("spec.%s{%s}", list, container)
}
