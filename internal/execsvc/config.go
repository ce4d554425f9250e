package execsvc

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/cri/pleg"
	"github.com/podstream/podstream/internal/execsvc/cri/probe"
	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/loop/startlatency"
	"github.com/podstream/podstream/internal/execsvc/loop/store"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/objects"
	"github.com/podstream/podstream/internal/execsvc/pod/podset"
	"github.com/podstream/podstream/internal/execsvc/pod/podtrace"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/execsvc/reclaim/containergc"
	"github.com/podstream/podstream/internal/execsvc/setup/podsetup"
)

// Config configures an Agent.
type Config struct {
	Runtime *runtime.Runtime
	// Images pulls images. Its Done must lead to the Agent's Wake.
	Images *image.Puller
	// PodSetup creates the volumes, cgroup, environment and hosts file of each pod.
	PodSetup *podsetup.Manager
	// Pods gets the desired pods, and Mirrors the mirror pods of the API server. Nil: the Agent creates them.
	Pods, Mirrors *podset.Set
	// Traces has the traces of the pods' changes. Nil: nothing is traced.
	Traces *podtrace.Traces
	// PodChanged is called with each pod, or mirror pod, that the stream has changed or removed. May be nil.
	PodChanged func(*v1.Pod)
	// Final reports whether a rejection of the pod is final, because the API server gets it. Nil: no rejection is.
	Final func(*v1.Pod) bool
	// Objects are the ConfigMaps and Secrets. The pods that have read one are synced when it changes. Nil: there are
	// none.
	Objects *objects.Objects
	// Node returns the node that pods are admitted for. Nil: a node without limits and features.
	Node func() admit.Node
	// AskRuntime asks the runtime for its features, so that Node has them. RuntimeChanged has to be called when Node
	// returns other ones. Nil: Node always has them.
	AskRuntime func(context.Context)
	// Pressure returns why a new pod can't be admitted now, because the node is short of a resource, or the machine
	// shuts down. PressureChanged has to be called when the result may have changed. Nil: the node is never short of
	// anything.
	Pressure func(*v1.Pod) (why admit.Rejection, rejected bool)
	// Garbage removes exited containers beyond the node's bound. May be nil.
	Garbage *containergc.Collector
	// Prober carries out probes.
	Prober probe.Prober
	// Store stores the pods, their statuses, allocations and terminations. Restored is its state when it was opened.
	Store    *store.Store
	Restored store.State
	// Board gets the current state of each pod. Events gets the events of pods; it may be nil.
	Board  *podview.Board
	Events *events.Recorder
	// PodErrorsChanged is called when the pods that can't run here, or the reasons, have changed. May be nil.
	PodErrorsChanged func()
	// Exits reports the ends of containers' processes. May be nil.
	Exits pleg.Exits
	// Pulses are requests for a sign of progress: the sync loop closes each channel that it receives. May be nil.
	Pulses <-chan chan<- struct{}
	// Health is called repeatedly with the error of the container runtime, or nil. May be nil.
	Health func(error)
	// RuntimeName is the runtime's name, for container IDs in statuses ("containerd").
	RuntimeName string
	// Network returns nil if the node's network is ready, or if that is unknown, and otherwise why it isn't. Nil: it
	// always is.
	Network func(context.Context) error
	// HostIPs returns the node's addresses, the primary one first. Nil: statuses have none.
	HostIPs func() []string
	// MaxRemovalsPerMinute bounds how many running pods the stream can end in a minute; further ones are held. Zero: no
	// bound.
	MaxRemovalsPerMinute int
	// RelistPeriod, HousekeepingPeriod, ResyncPeriod and RetryPause have the kubelet's values for zero: 1 s, 2 s, 60
	// s, 10 s.
	RelistPeriod, HousekeepingPeriod, ResyncPeriod, RetryPause time.Duration
	// Clock is for all of them. Nil means the real one.
	Clock clock.WithTicker
	// Starts measures the starts of the API server's pods. May be nil.
	Starts *startlatency.Tracker
	// Metrics registers the metrics of the Agent, the pleg and the workers. May be nil.
	Metrics prometheus.Registerer
	// ProbeMetrics registers the metrics of probes, which the kubelet serves on a page of their own. Nil: Metrics.
	ProbeMetrics prometheus.Registerer
	// Logger gets the messages for the node's administrator. Nil discards.
	Logger *slog.Logger
}

// setDefaults sets fields that are nil.
func (c *Config) setDefaults() {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Network == nil {
		c.Network = func(context.Context) error { return nil }
	}
	if c.Node == nil {
		c.Node = func() admit.Node { return admit.Node{} }
	}
	if c.AskRuntime == nil {
		c.AskRuntime = func(context.Context) {}
	}
	if c.Pressure == nil {
		c.Pressure = func(*v1.Pod) (admit.Rejection, bool) { return admit.Rejection{}, false }
	}
	if c.HostIPs == nil {
		c.HostIPs = func() []string { return nil }
	}
	if c.Pods == nil {
		c.Pods = podset.New()
	}
	if c.Mirrors == nil {
		c.Mirrors = podset.New()
	}
	if c.ProbeMetrics == nil {
		c.ProbeMetrics = c.Metrics
	}
	if c.Final == nil {
		c.Final = func(*v1.Pod) bool { return false }
	}
	if c.PodChanged == nil {
		c.PodChanged = func(*v1.Pod) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}
