package execsvc

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/admit"
	"github.com/podstream/podstream/internal/execsvc/board"
	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/gc"
	"github.com/podstream/podstream/internal/execsvc/image"
	"github.com/podstream/podstream/internal/execsvc/objects"
	"github.com/podstream/podstream/internal/execsvc/pleg"
	"github.com/podstream/podstream/internal/execsvc/podset"
	"github.com/podstream/podstream/internal/execsvc/probe"
	"github.com/podstream/podstream/internal/execsvc/runtime"
	"github.com/podstream/podstream/internal/execsvc/store"
	"github.com/podstream/podstream/internal/execsvc/world"
)

// Config says what an Agent works with.
type Config struct {
	Runtime *runtime.Runtime
	// Images pulls images. Its Done must be the Agent's Wake.
	Images *image.Puller
	// World gives pods what they find on the node.
	World *world.World
	// Pods gets what this node is asked to run, and Mirrors the API server's pictures of static pods. Nil: they are the Agent's own.
	Pods, Mirrors *podset.Set
	// Told is called with each pod, or mirror pod, that the stream has changed or taken away. Nil: nobody is told.
	Told func(*v1.Pod)
	// Final tells whether a refusal of the pod is for good: the API server is told of it. Nil: no refusal is.
	Final func(*v1.Pod) bool
	// Objects are woken by: the pods that have read an object are looked at when it changes. Nil: there are none.
	Objects *objects.Objects
	// Node is what pods are admitted against. Nil: nothing is known of the node.
	Node func() admit.Node
	// Pressure tells why a pod that isn't here yet can't come now, as the node is short of something; PressureChanged has to be called when it may
	// have another answer. Nil: the node is never short of anything.
	Pressure func(*v1.Pod) (why admit.Refusal, refused bool)
	// Garbage removes ended containers beyond the node's bound. Nil: nobody does.
	Garbage *gc.Collector
	// Prober carries out probes.
	Prober probe.Prober
	// Store remembers, across a restart, what runs here and what is being ended; Restored is what it had when it was opened.
	Store    *store.Store
	Restored store.State
	// Board shows each pod as it is. Events tells what happened to them; nil: nobody is told.
	Board  *board.Board
	Events *events.Recorder
	// Refused is called when the pods that can't run here, or the reasons, are others than before. Nil: nobody is told.
	Refused func()
	// Exits tells of the ends of containers' processes. Nil: nobody does.
	Exits pleg.Exits
	// Health is called now and then with what is wrong with the container runtime; nil if nothing is. Nil: nobody is told.
	Health func(error)
	// RuntimeName is the runtime's name, for container IDs in statuses ("containerd").
	RuntimeName string
	// Network is nil if the node's network is ready, as far as anybody knows, and otherwise says why it isn't. Nil: it always is.
	Network func(context.Context) error
	// HostIPs returns the node's addresses, the primary one first. Nil: none are shown.
	HostIPs func() []string
	// RelistPeriod, HousekeepingPeriod, ResyncPeriod and RetryPause have the kubelet's values for zero: 1 s, 2 s, 60 s, 10 s.
	RelistPeriod, HousekeepingPeriod, ResyncPeriod, RetryPause time.Duration
	// Clock is for all of them. Nil means the real one.
	Clock clock.WithTicker
	// Metrics takes the metrics of the pleg and of probes. Nil: nobody does.
	Metrics prometheus.Registerer
	// Logger gets what the node's owner has to know. Nil discards.
	Logger *slog.Logger
}

// setDefaults fills in what is left out.
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
	if c.Pressure == nil {
		c.Pressure = func(*v1.Pod) (admit.Refusal, bool) { return admit.Refusal{}, false }
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
	if c.Final == nil {
		c.Final = func(*v1.Pod) bool { return false }
	}
	if c.Told == nil {
		c.Told = func(*v1.Pod) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}
