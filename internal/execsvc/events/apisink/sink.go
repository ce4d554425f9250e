package apisink

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

// component is what the events' source says: the kubelet's part is podexecd's here.
const component = "kubelet"

// Config says where events go.
type Config struct {
	// REST is how the API server is reached. It isn't changed.
	REST *rest.Config
	// Node is the node's name.
	Node string
	// QPS is how many events a second are sent, and Burst how many of them at once after a pause: KubeletConfiguration's
	// eventRecordQPS and eventBurst. Zero QPS: there is no limit. Zero Burst means 1.
	QPS   float32
	Burst int
	// Logger is told, once a namespace, when events can't be sent, and when they can again. Nil discards.
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
	// A limiter that the config has would go before the limits.
	config.QPS, config.Burst, config.RateLimiter = cfg.QPS, max(cfg.Burst, 1), nil
	if cfg.QPS == 0 {
		// Zero would be rest's own default.
		config.QPS = -1
	}
	client, err := corev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for events: %w", err)
	}
	// The writer says what is wrong; client-go would say it of each event.
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	s := &Sink{broadcaster: record.NewBroadcaster(record.WithContext(ctx)), cancel: cancel}
	s.recorder = s.broadcaster.NewRecorder(runtime.NewScheme(), v1.EventSource{Component: component, Host: cfg.Node}).
		WithLogger(logr.Discard())
	s.broadcaster.StartRecordingToSink(&writer{ctx: ctx, events: client.Events(v1.NamespaceAll), log: cfg.Logger, failing: map[string]bool{}})
	return s, nil
}

// Record is part of events.Sink. It never waits.
func (s *Sink) Record(pod *v1.Pod, container, eventType, reason, message string) {
	s.recorder.Event(reference(pod, container), eventType, reason, message)
}

// RecordNode notes that something happened to the node of that name. Its events bear its name for a UID, as the kubelet's do: `kubectl
// describe node` looks for both. It never waits.
func (s *Sink) RecordNode(name, eventType, reason, message string) {
	s.recorder.Event(&v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: name, UID: types.UID(name)}, eventType, reason, message)
}

// Close breaks off what is being sent and drops what waits. Record does nothing after it.
func (s *Sink) Close() {
	s.cancel()
	s.broadcaster.Shutdown()
}

// reference is what the event is about: the pod, or one of its containers. A static pod's own UID is what its mirror pod bears in the
// annotation kubernetes.io/config.mirror, and what kubectl looks for there.
func reference(pod *v1.Pod, container string) *v1.ObjectReference {
	return &v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		FieldPath: fieldPath(pod, container),
	}
}

// fieldPath is where the container stands in the pod, as the kubelet writes it. Empty for the pod as a whole.
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
