package podexecd

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync/atomic"

	"github.com/opencontainers/cgroups"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc"
	"github.com/podstream/podstream/internal/execsvc/cluster/findings"
	clusternode "github.com/podstream/podstream/internal/execsvc/cluster/node"
	"github.com/podstream/podstream/internal/execsvc/cri/credential"
	"github.com/podstream/podstream/internal/execsvc/cri/instrumented"
	"github.com/podstream/podstream/internal/execsvc/cri/pullrecord"
	"github.com/podstream/podstream/internal/execsvc/decide/declared"
	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/loop/report"
	"github.com/podstream/podstream/internal/execsvc/loop/shutdown"
	"github.com/podstream/podstream/internal/execsvc/loop/startlatency"
	"github.com/podstream/podstream/internal/execsvc/loop/store"
	"github.com/podstream/podstream/internal/execsvc/machine/placement"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/objects"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/execsvc/reclaim/eviction"
	"github.com/podstream/podstream/internal/execsvc/serve/podexecapi"
	"github.com/podstream/podstream/internal/kubeletconfig"
	"github.com/podstream/podstream/internal/kubeletdir"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// storeFile is the store's name in --root-dir.
const storeFile = "podexecd.db"

// runtimeHealth is the name of the runtime's part in the health service.
const runtimeHealth = "podexecd.runtime"

// node runs pods: the agent and everything that it works with, from the stream to the container runtime.
type node struct {
	opts   *Options
	stream *client.Client
	board  *podview.Board
	events *events.Recorder
	// addresses finds the node's addresses.
	addresses *clusternode.Addresses
	// wakeups are the pods that the agent must sync again, progressed those whose pulls have made progress.
	wakeups, progressed *podQueue
	// cluster is nil on a standalone node.
	cluster *cluster
	// placer is nil if no process moves to another cgroup.
	placer *placement.Placer
	// api is nil on a node without the kubelet's ports.
	api *nodeAPI
	// backend gives podexec.v1.PodExecService the container runtime.
	backend *podexecapi.Backend
	// registry has podexecd's metrics, probes those of probes.
	registry, probes *prometheus.Registry
	log              *slog.Logger
	// tracers make spans; nil: nothing is traced.
	tracers trace.TracerProvider
	// calls are the metrics of the calls of the container runtime, starts measures the starts of pods.
	calls    *instrumented.Calls
	starts   *startlatency.Tracker
	progress *progress
	// health sets the health of a part of podexecd.
	health func(part string, good bool)

	// declared are the rules for the features that the node declares.
	declared declared.Rules
	agentID  string
	// podDirs are the places of the pods' directories.
	podDirs kubeletdir.Pods
	// volumes are the persistent volumes of pods.
	volumes    *persistence
	store      *store.Store
	restored   store.State
	keyring    *credential.Keyring
	pulls      *pullrecord.Records
	objects    *objects.Objects
	report     *report.Reporter
	thresholds []eviction.Threshold
	shutdown   *shutdown.Manager
	// agent is set by work, before anything that uses it is constructed.
	agent *execsvc.Agent
	// working is agent, for requests that come before and while it is constructed.
	working atomic.Pointer[execsvc.Agent]

	stopStore func()
}

// newNode returns a node of which nothing runs yet.
func newNode(opts *Options, stream *client.Client, registry *prometheus.Registry, log *slog.Logger) (*node, error) {
	n := &node{
		opts: opts, stream: stream, board: podview.New(), wakeups: newPodQueue(), progressed: newPodQueue(), backend: &podexecapi.Backend{}, progress: newProgress(),
		registry: registry, probes: prometheus.NewRegistry(), log: log, calls: instrumented.New(registry), starts: startlatency.New(startlatency.Config{Metrics: registry}),
		addresses: clusternode.NewAddresses(clusternode.AddressConfig{NodeIPs: opts.settings.NodeIPs, Node: opts.node, Hostname: opts.node}),
	}
	describe(opts, registry)
	n.shutdown = newShutdown(n)
	var err error
	if n.declared, err = declared.New(kubeletconfig.Version, opts.settings.Gates().Has); err != nil {
		return nil, err
	}
	var sink events.Config
	if opts.settings.Kubeconfig != "" {
		if n.cluster, err = newCluster(n, n.wakeups.Add); err != nil {
			return nil, err
		}
		sink.Sink = n.cluster.sink
	}
	n.events = events.New(sink)
	if n.cluster != nil {
		n.cluster.findings = n.findings()
	}
	return n, nil
}

// open opens the parts that don't need the container runtime.
func (n *node) open(ctx context.Context) (err error) {
	if err := checkCgroups(n.opts.settings, cgroups.IsCgroup2UnifiedMode()); err != nil {
		return err
	}
	if n.api, err = newNodeAPI(n); err != nil {
		return err
	}
	if n.placer, err = placer(n.opts.settings, n.log); err != nil {
		return err
	}
	if n.agentID, err = agentID(n.opts.RootDir); err != nil {
		return err
	}
	if n.thresholds, err = thresholdsOf(n.opts.settings); err != nil {
		return err
	}
	n.objects = objects.New(objects.Config{Watch: n.stream.WatchObjects, Logger: n.log})
	if n.volumes, err = newPersistence(n); err != nil {
		return err
	}
	if err := n.openImages(); err != nil {
		return err
	}
	n.report = report.New(report.Config{Report: n.stream.ReportApplied, Logger: n.log})
	n.store, n.restored, err = store.Open(store.Config{
		Path: filepath.Join(n.opts.RootDir, storeFile), Committed: n.report.Committed, Logger: n.log,
	})
	if err != nil {
		return err
	}
	execsvc.ShowRestored(n.board, n.restored)
	// The store stops after its users, so that their last changes are written.
	storing, stop := context.WithCancel(context.WithoutCancel(ctx))
	stored := make(chan struct{})
	go func() {
		defer close(stored)
		n.store.Run(storing)
	}()
	n.stopStore = func() { stop(); <-stored }
	return nil
}

// close stops the store, if it is open, and drops the events that wait to be sent.
func (n *node) close() {
	if n.stopStore != nil {
		n.stopStore()
	}
	if n.cluster != nil {
		n.cluster.sink.Close()
	}
}

// recordNodeEvent records an event of the Node, if there is a cluster.
func (n *node) recordNodeEvent(e nodestatus.Event) {
	if n.cluster != nil {
		n.cluster.event(e)
	}
}

// findings returns a Reporter of the manifests that podconfigd can't use.
func (n *node) findings() *findings.Reporter {
	return findings.New(findings.Config{
		Sources: func(ctx context.Context) ([]*podconfigv1.Source, error) {
			answer, err := n.stream.API().ListSources(ctx, &podconfigv1.ListSourcesRequest{})
			return answer.GetSources(), err
		},
		Pod: n.cluster.pods.Get, Event: n.recordNodeEvent, Events: n.events,
	})
}

// wakeNode has the Node's status posted now if it has changed.
func (n *node) wakeNode() {
	if n.cluster != nil {
		n.cluster.node.Wake()
	}
}

// run has the group run the node until ctx ends.
func (n *node) run(ctx context.Context, group *errgroup.Group) {
	if n.cluster != nil {
		group.Go(func() error { n.cluster.reach.Run(ctx); return nil })
	}
	if n.api != nil {
		n.api.run(ctx, group)
	}
	if n.placer != nil {
		group.Go(func() error { n.placer.Run(ctx); return nil })
	}
	group.Go(func() error { return unlessEnded(ctx, n.objects.Run(ctx)) })
	group.Go(func() error { return n.volumes.run(ctx) })
	group.Go(func() error { n.progress.await(ctx); return nil })
	group.Go(func() error { n.watchOOMs(ctx); return nil })
	group.Go(func() error {
		// The agent reports that the runtime is healthy once it has read the runtime's pods. Until then only failures are reported.
		failing := func(err error) {
			if err != nil {
				n.runtimeHealth(err)
			}
		}
		c, err := connect(ctx, n.opts.settings, n.tracers, n.calls, failing, n.log)
		if err != nil {
			return unlessEnded(ctx, err)
		}
		defer c.close(context.WithoutCancel(ctx))
		c.assign(ctx, n.opts.settings.Cluster.PodCIDR, n.log)
		return unlessEnded(ctx, n.work(ctx, c))
	})
}

// runtimeHealth records whether the container runtime answers.
func (n *node) runtimeHealth(err error) {
	n.progress.runtime(err)
	n.health(runtimeHealth, err == nil)
}
