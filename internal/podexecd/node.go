package podexecd

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc"
	"github.com/podstream/podstream/internal/execsvc/admit"
	"github.com/podstream/podstream/internal/execsvc/board"
	"github.com/podstream/podstream/internal/execsvc/credential"
	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/exits"
	"github.com/podstream/podstream/internal/execsvc/gc"
	"github.com/podstream/podstream/internal/execsvc/handler"
	"github.com/podstream/podstream/internal/execsvc/image"
	clusternode "github.com/podstream/podstream/internal/execsvc/node"
	"github.com/podstream/podstream/internal/execsvc/objects"
	"github.com/podstream/podstream/internal/execsvc/pressure"
	"github.com/podstream/podstream/internal/execsvc/report"
	"github.com/podstream/podstream/internal/execsvc/runtime"
	"github.com/podstream/podstream/internal/execsvc/store"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"

	"k8s.io/apimachinery/pkg/types"
)

// storeFile is the store's name in --root-dir.
const storeFile = "podexecd.db"

// runtimeHealth is the name of the runtime's part in the health service.
const runtimeHealth = "podexecd.runtime"

// probeVersion is the Kubernetes whose probes these are, for User-Agents.
const probeVersion = "1.37"

// node is what runs pods: the agent and all that it works with, from the stream to the runtime.
type node struct {
	opts   *Options
	stream *client.Client
	board  *board.Board
	events *events.Recorder
	// cluster is nil on a node that stands alone.
	cluster *cluster
	// api is nil on a node without the kubelet's ports.
	api      *nodeAPI
	registry *prometheus.Registry
	log      *slog.Logger
	// health tells how a part of podexecd is.
	health func(part string, good bool)

	agentID  string
	store    *store.Store
	restored store.State
	keyring  *credential.Keyring
	objects  *objects.Objects
	report   *report.Reporter
	// thresholds are how much of everything the node keeps free.
	thresholds []pressure.Threshold
	// agent is made when the runtime has answered; runtime is nil until then.
	agent   *execsvc.Agent
	runtime lateRuntime

	stopStore func()
}

// open opens what doesn't need the runtime.
func (n *node) open(ctx context.Context) (err error) {
	if n.agentID, err = agentID(n.opts.RootDir); err != nil {
		return err
	}
	if n.thresholds, err = thresholdsOf(n.opts.settings); err != nil {
		return err
	}
	n.objects = objects.New(objects.Config{Watch: n.stream.WatchObjects, Logger: n.log})
	n.keyring, err = credential.New(credential.Config{
		Secrets: n.objects, Files: credential.DefaultFiles(n.opts.RootDir), PluginConfig: n.opts.settings.CredentialProviderConfig,
		PluginDir: n.opts.settings.CredentialProviderBinDir, Events: n.events, Logger: n.log,
	})
	if err != nil {
		return err
	}
	n.report = report.New(report.Config{Report: n.stream.ReportApplied, Refused: func() []client.PodError { return n.agent.Refused() }, Logger: n.log})
	n.store, n.restored, err = store.Open(store.Config{
		Path: filepath.Join(n.opts.RootDir, storeFile), Committed: func(c *podconfigv1.Cursor) { n.report.Committed(c) }, Logger: n.log,
	})
	if err != nil {
		return err
	}
	execsvc.ShowRestored(n.board, n.restored)
	// The store outlives those who use it: what they note last is written still.
	storing, stop := context.WithCancel(context.WithoutCancel(ctx))
	stored := make(chan struct{})
	go func() {
		defer close(stored)
		n.store.Run(storing)
	}()
	n.stopStore = func() { stop(); <-stored }
	return nil
}

func (n *node) close() { n.stopStore() }

// run has the group do all that the node does until ctx ends.
func (n *node) run(ctx context.Context, group *errgroup.Group) {
	group.Go(func() error { return unlessEnded(ctx, n.objects.Run(ctx)) })
	group.Go(func() error {
		c, err := connect(ctx, n.opts.settings, n.log)
		if err != nil {
			return unlessEnded(ctx, err)
		}
		defer c.close(context.WithoutCancel(ctx))
		return unlessEnded(ctx, n.work(ctx, c))
	})
}

// work runs pods until ctx ends.
func (n *node) work(ctx context.Context, c *connection) error {
	settings := n.opts.settings
	found := clusternode.NewAddresses(clusternode.AddressConfig{NodeIPs: settings.NodeIPs, Node: n.opts.node, Hostname: n.opts.node})
	hostIPs := newAddresses(ctx, found.IPs)
	known, err := readFacts(ctx, n.opts, c, n.log)
	if err != nil {
		return fmt.Errorf("read what the node has: %w", err)
	}
	images := image.New(image.Config{
		Images: c.images, Credentials: n.keyring, Serial: settings.Pulls.Serial, MaxParallel: settings.Pulls.MaxParallel,
		QPS: settings.Pulls.QPS, Burst: settings.Pulls.Burst, BackoffBase: settings.PullBackoff.Base, BackoffMax: settings.PullBackoff.Max,
		Done: func(uid types.UID) { n.agent.Wake(uid) }, Events: n.events, Logger: n.log,
	})
	defer images.Close()
	handlers := handler.New(handler.Config{Runtime: c.runtime, Version: probeVersion, Events: n.events})
	criRuntime := runtime.New(runtime.Config{
		Runtime: c.runtime, Images: images, Hooks: handlers, Agent: n.agentID, LogsDir: settings.PodLogsDir, PodsDir: podsDir(n.opts.RootDir),
		Node: known.forCRI(n.opts), RestartBackoffBase: settings.RestartBackoff.Base, RestartBackoffMax: settings.RestartBackoff.Max,
		MaxPerContainer: &settings.MaxPerContainer, MinAge: settings.MinAge, HostIPs: hostIPs.get, Events: n.events, Logger: n.log,
	})
	ends, err := exits.New(exits.Config{Logger: n.log})
	if err != nil {
		return fmt.Errorf("listen for the ends of processes: %w", err)
	}
	defer func() { _ = ends.Close() }()
	worlds, err := n.world(known, hostIPs.get)
	if err != nil {
		return err
	}
	watch := newGuard(ctx, n, c, known, worlds.EmptyDir)
	working := execsvc.Config{
		Runtime: criRuntime, Images: images, Exits: ends, Health: func(err error) { n.health(runtimeHealth, err == nil) },
		Garbage: gc.New(gc.Config{
			Runtime: criRuntime, LogsDir: settings.PodLogsDir, MaxDead: settings.MaxDead, MinAge: settings.MinAge, Logger: n.log,
		}),
		World: worlds, Objects: n.objects, Node: func() admit.Node { return known.admission(n.opts) }, Pressure: watch.Admit, Prober: handlers,
		Store: n.store, Restored: n.restored, Board: n.board, Events: n.events, Refused: n.report.Changed,
		RuntimeName: c.name, Network: c.network, HostIPs: hostIPs.get, ResyncPeriod: settings.SyncFrequency, Metrics: n.registry, Logger: n.log,
	}
	n.cluster.join(&working)
	n.agent = execsvc.New(working)
	n.runtime.Store(criRuntime)
	defer n.api.serveStreams(n, criRuntime)()
	defer n.api.serveStats(n, c, known)()
	watch.Begin(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { n.agent.Run(ctx); return nil })
	n.cluster.run(ctx, group, machine{connection: c, agent: n.agent, info: known.reread(n.opts), ips: found, pressure: watch.Pressure})
	group.Go(func() error { n.report.Run(ctx); return nil })
	watch.run(ctx, group)
	group.Go(func() error {
		for {
			select {
			case <-n.objects.Ready():
				n.agent.ObjectsChanged(n.objects.Take())
			case <-ctx.Done():
				return nil
			}
		}
	})
	group.Go(func() error {
		return n.stream.Watch(ctx, client.WatchOptions{ResumeAfter: n.restored.Cursor, Known: n.restored.Pods}, n.agent.Deliver)
	})
	return group.Wait()
}
