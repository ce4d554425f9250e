package podexecd

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/clusteruid"
	"github.com/podstream/podstream/internal/execsvc"
	"github.com/podstream/podstream/internal/execsvc/cluster/apiaccounts"
	"github.com/podstream/podstream/internal/execsvc/cluster/apiclient"
	"github.com/podstream/podstream/internal/execsvc/cluster/apiobjects"
	"github.com/podstream/podstream/internal/execsvc/cluster/apisink"
	"github.com/podstream/podstream/internal/execsvc/cluster/apistatus"
	"github.com/podstream/podstream/internal/execsvc/cluster/apivolumes"
	"github.com/podstream/podstream/internal/execsvc/cluster/csinode"
	"github.com/podstream/podstream/internal/execsvc/cluster/findings"
	"github.com/podstream/podstream/internal/execsvc/cluster/mirror"
	clusternode "github.com/podstream/podstream/internal/execsvc/cluster/node"
	"github.com/podstream/podstream/internal/execsvc/cluster/nodecert"
	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podset"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/execsvc/setup/token"
	"github.com/podstream/podstream/internal/failpoint/apipoints"
	"github.com/podstream/podstream/internal/kubeletconfig"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// cluster connects this node to a cluster: the connection to the API server, and everything that uses it. Nothing else waits for it.
type cluster struct {
	opts  *Options
	log   *slog.Logger
	reach *nodecert.Client
	sink  *apisink.Sink
	// api has the rate limit of --kube-api-qps. unbounded has none: the node's heartbeats, and requests that unauthenticated callers cause,
	// don't compete with pods.
	api, unbounded *apiclient.Client
	// pods and mirrors are the agent's.
	pods, mirrors *podset.Set
	// objects are the API objects that pods use.
	objects *apiobjects.Cluster
	// tokens are the service accounts' tokens, accounts the service accounts.
	tokens   *token.Tokens
	accounts *apiaccounts.Accounts
	// volumes are the claims and attachments of pods' volumes, inUse the Node's volumesInUse, and attachments joins them.
	volumes     *apivolumes.Volumes
	inUse       *clusternode.InUse
	attachments *apivolumes.Attachments
	// csiNodes keeps the CSINode. It is set before the first volume is set up.
	csiNodes *csinode.Keeper
	node     *clusternode.Node
	statuses *apistatus.Writer
	keeper   *mirror.Keeper
	findings *findings.Reporter
}

// newCluster returns the cluster of --kubeconfig. The file doesn't have to exist yet. wake is called with each pod that must be synced again.
func newCluster(n *node, wake func(types.UID)) (*cluster, error) {
	s := n.opts.settings
	c := &cluster{opts: n.opts, log: n.log, pods: podset.New(), mirrors: podset.New()}
	c.reach = nodecert.NewClient(nodecert.ClientConfig{
		Node: n.opts.node, Kubeconfig: s.Kubeconfig, BootstrapKubeconfig: s.BootstrapKubeconfig, CertDir: n.opts.certDir(), Rotate: s.RotateCertificates,
		QPS: s.KubeAPIQPS, Burst: s.KubeAPIBurst, ContentType: s.ContentType, Metrics: n.registry, Logger: n.log,
	})
	var err error
	if c.api, err = apiclient.New(c.requests()); err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", s.Kubeconfig, err)
	}
	if c.unbounded, err = apiclient.New(unbounded(c.requests())); err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", s.Kubeconfig, err)
	}
	c.objects = apiobjects.New(apiobjects.Config{
		Services: apiobjects.ResourceOf(c.unbounded.Services()), RuntimeClasses: apiobjects.ResourceOf(c.unbounded.RuntimeClasses()),
		TrustBundles: apiobjects.ResourceOf(c.unbounded.TrustBundles()), BetaTrustBundles: apiobjects.ResourceOf(c.unbounded.BetaTrustBundles()),
		CSIDrivers: apiobjects.ResourceOf(c.unbounded.CSIDrivers()), Served: c.unbounded.Served, Wake: wake,
		Dir:    filepath.Join(n.opts.RootDir, "cluster"),
		UID:    func(ctx context.Context) (types.UID, error) { return clusteruid.Get(ctx, c.unbounded.Core()) },
		Server: func() string { return c.reach.Config().Host }, Logger: n.log,
	})
	c.tokens = token.New(token.Config{Requests: c.api.CreateToken, Logger: c.log})
	c.accounts = apiaccounts.New(apiaccounts.Config{Get: c.api.ServiceAccount, Logger: c.log})
	c.sink, err = apisink.New(apisink.Config{REST: c.reach.Config(), Node: n.opts.node, QPS: s.EventQPS, Burst: s.EventBurst, Logger: n.log})
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", s.Kubeconfig, err)
	}
	c.newVolumes(wake)
	c.node = clusternode.New(c.nodeConfig(n))
	core, b := c.api.Core(), n.board
	c.statuses = apistatus.New(apistatus.Config{
		Client: core, Board: b, Pod: c.pods.Get, Mirror: c.mirrors.ByName, Metrics: n.registry, Logger: n.log,
	})
	c.keeper = mirror.New(mirror.Config{
		Client: core, Node: n.opts.node, NodeUID: c.uid, Pods: c.pods, Mirrors: c.mirrors, Settled: c.pods.Settled,
		Ending: func(namespace, name string) bool { return ending(b, namespace, name) },
		Lives:  func(uid types.UID) bool { return lives(b, uid) }, Metrics: n.registry, Logger: n.log,
	})
	return c, nil
}

// nodeConfig configures the Node object.
func (c *cluster) nodeConfig(n *node) clusternode.Config {
	s := n.opts.settings
	var port int32
	if s.EnableServer {
		port = int32(s.Port) //nolint:gosec // The settings were checked.
	}
	return clusternode.Config{
		Client: c.unbounded, Name: n.opts.node, Hostname: n.opts.node, Register: s.RegisterNode, Taints: s.RegisterWithTaints,
		ProviderID: s.ProviderID, NodeIPs: s.NodeIPs, ExternalCloud: s.ExternalCloud, AttachDetach: s.EnableControllerAttachDetach, IPs: n.addresses.IPs,
		LocalStorage: s.LocalStorageCapacityIsolation, KubeletVersion: kubeletconfig.Version, Port: port, MaxImages: &s.NodeStatusMaxImages,
		DeclaredFeatures: func(r *runtimeapi.RuntimeFeatures) []string { return n.declared.Of(r).Names() },
		NotReady:         func() []error { return []error{n.shutdown.Status()} },
		InUse:            c.inUse, Attached: c.volumes.AttachedChanged,
		Event: c.event, UpdateFrequency: s.NodeStatusUpdateFrequency, ReportFrequency: s.NodeStatusReportFrequency,
		LeaseDuration: s.NodeLeaseDuration, Uptime: uptime(), Metrics: n.registry, Logger: n.log,
	}
}

// requests returns the configuration of the clients that report this node and its pods.
func (c *cluster) requests() *rest.Config {
	config := c.reach.Config()
	config.Wrap(apipoints.Around)
	return config
}

func unbounded(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	// A warning about a deprecated API would be logged for each request.
	config.WarningHandlerWithContext = rest.NoWarnings{}
	return config
}

// join adds the cluster's part to the agent's configuration.
func (c *cluster) join(cfg *execsvc.Config) {
	cfg.Pods, cfg.Mirrors, cfg.Final = c.pods, c.mirrors, podmeta.FromAPI
	cfg.PodChanged = func(pod *v1.Pod) {
		c.statuses.Wake(pod)
		c.keeper.Wake(pod)
	}
}

// admission adds the labels and taints of the Node object to the values that pods are admitted against on a standalone node.
func (c *cluster) admission(alone func() admit.Node) func() admit.Node {
	return func() admit.Node {
		n := alone()
		// While the Node's labels are unknown, no pod is rejected for them: the scheduler used them.
		n.Labels, n.Taints, n.Handler = nil, nil, c.objects.Handler
		if object := c.node.Node(); object != nil {
			n.Labels, n.Taints = object.Labels, object.Spec.Taints
		}
		return n
	}
}

func (c *cluster) uid() types.UID {
	if object := c.node.Node(); object != nil {
		return object.UID
	}
	return ""
}

// event records an event of the Node.
func (c *cluster) event(e nodestatus.Event) {
	c.sink.RecordNode(c.opts.node, e.Type, e.Reason, e.Message)
}

// ending reports whether a pod of that name that isn't from the API server is terminating, or runs since before the
// restart and no source has claimed it yet.
func ending(b *podview.Board, namespace, name string) bool {
	for _, p := range b.All() {
		if p.Name != name || p.Namespace != namespace || p.Desired || p.Object != nil && podmeta.FromAPI(p.Object) {
			continue
		}
		switch p.State {
		case podexecv1.WorkerState_WORKER_STATE_FINISHED:
		case podexecv1.WorkerState_WORKER_STATE_UNSPECIFIED:
			// It has a status only if it runs.
			if p.Status != nil && !podmeta.IsTerminal(p.Status.Phase) {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// lives reports whether the pod hasn't ended, as far as its status is known.
func lives(b *podview.Board, uid types.UID) bool {
	p, there := b.Get(uid)
	return there && p.Status != nil && len(p.Status.Conditions) > 0 && !podmeta.IsTerminal(p.Status.Phase)
}

// run has the group report this node and its pods to the API server until ctx ends.
func (c *cluster) run(ctx context.Context, group *errgroup.Group, m clusternode.Machine) {
	group.Go(func() error { c.objects.Run(ctx); return nil })
	group.Go(func() error { c.node.Run(ctx, m); return nil })
	group.Go(func() error { c.statuses.Run(ctx); return nil })
	group.Go(func() error { c.keeper.Run(ctx); return nil })
	group.Go(func() error { c.findings.Run(ctx); return nil })
}
