package node

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/node/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/nodeinfo"
)

// The kubelet's defaults.
const (
	defaultUpdateFrequency = 10 * time.Second
	defaultReportFrequency = 5 * time.Minute
	defaultLeaseDuration   = 40 * time.Second
	defaultMaxImages       = 50
)

// Config says what the Node object is to be, and whom to ask for the rest. Functions may be called at any time, from one goroutine.
type Config struct {
	// Client is for the API server. It shouldn't bound the rate of calls: there are few.
	Client kubernetes.Interface
	// Name is the node's, and Hostname what its label and its address of that type say.
	Name, Hostname string

	// Register makes the Node object if there is none. Without it somebody else does, and what it has beside its status is left as it is.
	Register bool
	// Taints and ProviderID are what a Node begins with, besides Info's labels: --register-with-taints and --provider-id.
	Taints     []v1.Taint
	ProviderID string
	// NodeIPs are those of --node-ip, which may be unspecified ones; ExternalCloud is --cloud-provider=external.
	NodeIPs       []netip.Addr
	ExternalCloud bool
	// AttachDetach is enableControllerAttachDetach: volumes are attached by a controller.
	AttachDetach bool
	// ResetExtended zeroes, once, the extended resources of a Node that was there before: those who offer devices have to do it anew.
	ResetExtended bool

	// IPs are the node's addresses: Addresses.IPs. Nil: they stay as they are.
	IPs func(context.Context) ([]netip.Addr, error)
	// Info is what is known of the machine.
	Info func() nodeinfo.Info
	// KubeletVersion is the version of Kubernetes that is followed: v1.37.2-podstream.
	KubeletVersion string
	// Port is that of the node's API. Zero: it has none.
	Port int32
	// Images lists those on the node; it is called every 30 s at most. Nil: they aren't told.
	Images func(context.Context) ([]*runtimeapi.Image, error)
	// MaxImages is nodeStatusMaxImages: how many are told, below zero all. Nil means 50.
	MaxImages *int
	// DeclaredFeatures is what the scheduler may know of what this node supports.
	DeclaredFeatures []string
	// Runtime is the state of the container runtime: RuntimeWatch.State.
	Runtime func() nodestatus.Runtime
	// Pressure is what the node is short of. Nil: never of anything.
	Pressure func() nodestatus.Pressure
	// NotReady are further reasons for which the node isn't ready. Nil: there are none.
	NotReady func() []error

	// PodCIDRs is told the ranges of the pods' addresses ("10.1.0.0/24", or two with a comma) when the cluster has given or changed them, again
	// at each interval until it returns no error. Nil: nobody wants to know.
	PodCIDRs func(ctx context.Context, cidrs string) error
	// Event is told what happens to the Node. Nil: nobody is.
	Event func(nodestatus.Event)

	// UpdateFrequency is nodeStatusUpdateFrequency: how often the status is made; zero means 10 s. ReportFrequency is how often it is posted
	// though nothing has changed; zero means 5 min. LeaseDuration is nodeLeaseDurationSeconds; zero means 40 s.
	UpdateFrequency, ReportFrequency, LeaseDuration time.Duration
	// Metrics is where kubelet_node_name is registered. Nil: nowhere.
	Metrics prometheus.Registerer
	// Logger is told of troubles with the API server, once when they begin and once when they end. Nil discards.
	Logger *slog.Logger
}

// Node keeps a Node object.
type Node struct {
	cfg Config
	// woken has a value when the status may have changed.
	woken chan struct{}
	// registered is closed when the Node object has been seen.
	registered chan struct{}
	log        *slog.Logger

	// The rest but seen is of the goroutine that registers and posts.
	registering, posting, addressing, assigning, doubling *trouble

	// reported is when a status was last posted, wanted the one that was, and version that of the object as it was then.
	reported time.Time
	wanted   v1.NodeStatus
	version  string
	// delay is added to ReportFrequency, once, so that not all nodes report at the same time.
	delay    time.Duration
	refused  map[string]bool
	images   []*runtimeapi.Image
	imagesAt time.Time
	podCIDRs string
	// reset is that extended resources are still to be zeroed, wasReady that the node has been ready, cordoned that it is closed for new pods.
	reset, wasReady, cordoned bool

	mu   sync.Mutex
	seen *v1.Node
}

// New returns a Node that does nothing yet.
func New(cfg Config) *Node {
	setDefault(&cfg.UpdateFrequency, defaultUpdateFrequency)
	setDefault(&cfg.ReportFrequency, defaultReportFrequency)
	setDefault(&cfg.LeaseDuration, defaultLeaseDuration)
	if cfg.MaxImages == nil {
		most := defaultMaxImages
		cfg.MaxImages = &most
	}
	if cfg.Pressure == nil {
		cfg.Pressure = func() nodestatus.Pressure { return nodestatus.Pressure{} }
	}
	if cfg.NotReady == nil {
		cfg.NotReady = func() []error { return nil }
	}
	if cfg.Event == nil {
		cfg.Event = func(nodestatus.Event) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Metrics != nil {
		name := prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kubelet_node_name", Help: "The node's name. Always 1.", ConstLabels: prometheus.Labels{"node": cfg.Name},
		})
		name.Set(1)
		cfg.Metrics.MustRegister(name)
	}
	log := cfg.Logger.With("node", cfg.Name)
	return &Node{
		cfg: cfg, woken: make(chan struct{}, 1), registered: make(chan struct{}), log: log, refused: map[string]bool{}, reset: cfg.ResetExtended,
		registering: &trouble{log: log, what: "the node can't be registered; trying again", end: "the node is registered"},
		posting:     &trouble{log: log, what: "the node's status can't be posted; trying again", end: "the node's status is posted again"},
		addressing:  &trouble{log: log, what: "the node's addresses can't be found; they stay as they were", end: "the node's addresses are known"},
		assigning: &trouble{
			log: log, what: "the pods' address ranges can't be put into use; trying again", end: "the pods' address ranges are in use",
		},
		doubling: &trouble{
			log: log, what: "another machine posts the status of this Node too: each node needs a name of its own",
			end: "no other machine posts the status of this Node any more",
		},
	}
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// Run keeps the object until ctx ends.
func (n *Node) Run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { n.keep(ctx) })
	group.Go(func() {
		if n.isRegistered(ctx) {
			n.watch(ctx)
		}
	})
	group.Go(func() {
		if n.isRegistered(ctx) {
			n.renew(ctx)
		}
	})
	group.Wait()
}

// isRegistered waits until the Node object is there. It is false if ctx ends before.
func (n *Node) isRegistered(ctx context.Context) bool {
	select {
	case <-n.registered:
		return true
	case <-ctx.Done():
		return false
	}
}

// Wake says that the status may have changed. It never waits.
func (n *Node) Wake() {
	select {
	case n.woken <- struct{}{}:
	default:
	}
}

// Node is the object as it was last seen, or nil while there is none, or none is known. It mustn't be changed.
func (n *Node) Node() *v1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen
}

// Registered is closed once the Node object has been seen for the first time.
func (n *Node) Registered() <-chan struct{} { return n.registered }

// see notes the object as it is now, unless a newer one is known.
func (n *Node) see(node *v1.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen != nil {
		if order, err := resourceversion.CompareResourceVersion(node.ResourceVersion, n.seen.ResourceVersion); err == nil && order < 0 {
			return
		}
	}
	n.seen = node
}

// seeAnew notes the object as it is now, even if a newer one is known: the server may have lost that, or gone back to a backup.
func (n *Node) seeAnew(node *v1.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen = node
}

// gone notes that the object isn't there any more.
func (n *Node) gone(node *v1.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen != nil && n.seen.UID == node.UID {
		n.seen = nil
	}
}
