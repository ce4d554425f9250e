package podexecd

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc"
	clusternode "github.com/podstream/podstream/internal/execsvc/cluster/node"
	"github.com/podstream/podstream/internal/execsvc/cri/exits"
	"github.com/podstream/podstream/internal/execsvc/cri/handler"
	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/cri/pullprogress"
	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/pod/podtrace"
	"github.com/podstream/podstream/internal/execsvc/reclaim/containergc"
	"github.com/podstream/podstream/internal/execsvc/reclaim/eviction"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
	"github.com/podstream/podstream/internal/kubeletconfig"
)

// work runs pods until ctx ends.
func (n *node) work(ctx context.Context, c *connection) error {
	settings := n.opts.settings
	hostIPs := newAddresses(ctx, n.addresses.IPs)
	known, err := readFacts(ctx, n.opts, c, n.log)
	if err != nil {
		return fmt.Errorf("read the node's capacity: %w", err)
	}
	n.announce(startEvents(&known.info, volume.NoSwap))
	images := image.New(image.Config{
		Images: c.images, Credentials: n.keyring, Records: n.pulls, Serial: settings.Pulls.Serial, MaxParallel: settings.Pulls.MaxParallel,
		QPS: settings.Pulls.QPS, Burst: settings.Pulls.Burst, BackoffBase: settings.PullBackoff.Base, BackoffMax: settings.PullBackoff.Max,
		Done: n.wakeups.Add, Pulled: n.starts.Pulled, Progress: pullprogress.New(pullprogress.Config{Store: c.content, Logger: n.log}),
		Progressed: n.progressed.Add, Events: n.events, Metrics: n.registry, Logger: n.log,
	})
	defer images.Close()
	handlers := handler.New(handler.Config{
		Runtime: c.runtime, RequestTimeout: settings.RequestTimeout, Version: kubeletconfig.Minor, Events: n.events, Metrics: n.registry,
		Answers: func(ctx context.Context) error {
			_, err := c.runtime.Version(ctx, "")
			return err
		},
	})
	ends, err := exits.New(exits.Config{Logger: n.log})
	if err != nil {
		return fmt.Errorf("watch for exited processes: %w", err)
	}
	defer func() { _ = ends.Close() }()
	status := c.status()
	if err := status.Await(ctx); err != nil {
		return err
	}
	against := func() admit.Node { return known.admission(n.opts, status.Last(), n.declared) }
	if n.cluster != nil {
		against = n.cluster.admission(against)
	}
	setup, err := n.podSetup(known, against, hostIPs.get)
	if err != nil {
		return err
	}
	criRuntime := runtime.New(runtime.Config{
		Runtime: c.runtime, Images: images, Hooks: handlers, Agent: n.agentID, AdoptKubelet: n.opts.adoptKubelet, LogsDir: settings.PodLogsDir, PodDirs: n.podDirs,
		Node: known.forCRI(n.opts), RestartBackoffBase: settings.RestartBackoff.Base, RestartBackoffMax: settings.RestartBackoff.Max,
		MaxPerContainer: &settings.MaxPerContainer, MinAge: settings.MinAge, RemoveCgroup: setup.RemoveContainerCgroup,
		DeleteTask: c.tasks.Delete, HostIPs: hostIPs.get, Events: n.events, Metrics: n.registry, Logger: n.log,
	})
	if err := checkAdoption(ctx, criRuntime, n.podDirs.Roots(), n.log); err != nil {
		return err
	}
	conditions := eviction.NewConditions()
	cfg := execsvc.Config{
		Runtime: criRuntime, Images: images, Exits: ends, Health: n.runtimeHealth, Pulses: n.progress.pulses,
		Garbage: containergc.New(containergc.Config{
			Runtime: criRuntime, LogsDir: settings.PodLogsDir, MaxContainers: settings.MaxDead, MinAge: settings.MinAge,
			Event: n.recordNodeEvent, Logger: n.log,
		}),
		PodSetup: setup, Objects: n.objects, Node: against, AskRuntime: status.Ask, Pressure: n.refusal(conditions.Admit), Prober: handlers,
		Store: n.store, Restored: n.restored, Board: n.board, Events: n.events, PodErrorsChanged: n.report.Changed,
		RuntimeName: c.name, Network: c.network, HostIPs: hostIPs.get, ResyncPeriod: settings.SyncFrequency, Starts: n.starts, Metrics: n.registry,
		ProbeMetrics: n.probes, MaxRemovalsPerMinute: n.opts.maxRemovals, Logger: n.log,
	}
	if n.tracers != nil {
		cfg.Traces = podtrace.New(podtrace.Config{Tracer: n.tracers.Tracer("podexecd")})
	}
	if n.cluster != nil {
		n.cluster.join(&cfg)
	}
	n.agent = execsvc.New(cfg)
	n.working.Store(n.agent)
	reclaim := newReclaimer(n, c, known, conditions, images)
	usage := n.usage(c, criRuntime, known, reclaim.files)
	defer usage.Close()
	n.backend.Publish(criRuntime)
	n.backend.PublishRestarts(n.agent)
	n.backend.PublishImages(nodeImages{reclaim.images, images, c})
	n.backend.PublishStats(usage)
	n.backend.PublishVersion(func(ctx context.Context) (*runtimeapi.VersionResponse, error) { return c.runtime.Version(ctx, "v1") })
	if n.api != nil {
		defer n.api.serveRuntime(n, criRuntime, usage)()
	}
	reclaim.evictions.ObserveOnce(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { n.shutdown.Run(ctx, n.agent); return nil })
	n.shutdown.Await(ctx) // While the machine shuts down, no pod may start.
	n.runAgent(ctx, group)
	n.runMachine(ctx, group, c, status, known, conditions)
	reclaim.run(ctx, group)
	return group.Wait()
}

// maxRevisionBytes bounds what a podconfigd can have podexecd keep of a revision without end, and maxPodBytes of pods without
// end; podexecd keeps several times as much for a decoded pod.
const maxRevisionBytes, maxPodBytes = 256 << 20, 256 << 20

// runAgent has the group run the agent, and pass on everything that the agent receives, until ctx ends.
func (n *node) runAgent(ctx context.Context, group *errgroup.Group) {
	close(n.progress.looping)
	group.Go(func() error { n.agent.Run(ctx); return nil })
	group.Go(func() error { n.report.Run(ctx, n.agent.PodErrors); return nil })
	group.Go(func() error {
		forward(ctx, n.wakeups, func(pods []types.UID) {
			for _, uid := range pods {
				n.agent.Wake(uid)
			}
		})
		return nil
	})
	group.Go(func() error {
		forward(ctx, n.progressed, func(pods []types.UID) {
			for _, uid := range pods {
				n.agent.ShowPulls(uid)
			}
		})
		return nil
	})
	group.Go(func() error { forward(ctx, n.objects, n.agent.ObjectsChanged); return nil })
	group.Go(func() error {
		return n.stream.Watch(ctx, client.WatchOptions{
			ResumeAfter: n.restored.Cursor, Known: n.restored.Pods, MaxRevisionBytes: maxRevisionBytes, MaxBytes: maxPodBytes,
		}, n.agent.Deliver)
	})
}

// runMachine has the group watch the container runtime, and keep the Node object in a cluster, until ctx ends.
func (n *node) runMachine(
	ctx context.Context, group *errgroup.Group, c *connection, status *clusternode.RuntimeStatus, known *facts, conditions *eviction.Conditions,
) {
	watch := clusternode.NewRuntimeWatch(clusternode.WatchConfig{
		Runtime: status, PLEG: n.agent.PLEGStalled, Changed: func() { n.agent.RuntimeChanged(); n.wakeNode() },
	})
	group.Go(func() error { watch.Run(ctx); return nil })
	if n.cluster == nil {
		return
	}
	n.cluster.run(ctx, group, clusternode.Machine{
		Info: known.reread(n.opts), Runtime: watch.State, Pressure: conditions.Pressure,
		Images:   func(ctx context.Context) ([]*runtimeapi.Image, error) { return c.images.ListImages(ctx, nil) },
		PodCIDRs: c.assignCIDRs,
	})
}
