package node

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/cluster/apiclient"
	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/machine/nodeinfo"
)

// The kubelet's defaults.
const (
	defaultUpdateFrequency = 10 * time.Second
	defaultReportFrequency = 5 * time.Minute
	defaultLeaseDuration   = 40 * time.Second
	defaultMaxImages       = 50
)

// Config configures a Node. Run calls the functions, from one goroutine.
type Config struct {
	// Client must not limit the rate of calls: there are few.
	Client *apiclient.Client
	// Name is the node's name. Hostname is its hostname label, and its address of that type.
	Name, Hostname string

	// Register creates the Node object if it doesn't exist. Without it another client creates the object, and only
	// its status is changed.
	Register bool
	// Taints and ProviderID are set when the Node is created, besides Info's labels: --register-with-taints and
	// --provider-id.
	Taints     []v1.Taint
	ProviderID string
	// NodeIPs are the addresses of --node-ip, which may be unspecified ones; ExternalCloud is
	// --cloud-provider=external.
	NodeIPs       []netip.Addr
	ExternalCloud bool
	// AttachDetach is enableControllerAttachDetach: volumes are attached by a controller.
	AttachDetach bool
	// ResetExtended sets the extended resources of an existing Node to zero, once: device plugins must register them
	// again.
	ResetExtended bool

	// IPs returns the node's addresses: Addresses.IPs. Nil: the status keeps its addresses.
	IPs func(context.Context) ([]netip.Addr, error)
	// LocalStorage is localStorageCapacityIsolation: the node isn't ready until its ephemeral-storage is known.
	LocalStorage bool
	// KubeletVersion is the version in the status: v1.37.2-podstream.
	KubeletVersion string
	// Port is the port of the node's API. Zero: none.
	Port int32
	// MaxImages is nodeStatusMaxImages: the greatest number of images in the status; negative means all. Nil means
	// 50.
	MaxImages *int
	// DeclaredFeatures returns the features that the node declares while its container runtime reports these; nil if
	// the runtime reports none. Nil: the node declares none.
	DeclaredFeatures func(*runtimeapi.RuntimeFeatures) []string
	// NotReady returns further reasons for which the node isn't ready. Nil: none.
	NotReady func() []error
	// InUse are the volumes in the status's volumesInUse. Nil: the status keeps its list.
	InUse *InUse
	// Attached is called when the volumes in the status's volumesAttached have changed. Nil: no call is made.
	Attached func()

	// Event is called with each event of the Node. Nil: no call is made.
	Event func(nodestatus.Event)

	// UpdateFrequency is nodeStatusUpdateFrequency: the time between two computations of the status; zero means 10
	// s. ReportFrequency is the time between two posts of an unchanged status; zero means 5 min. LeaseDuration is
	// nodeLeaseDurationSeconds; zero means 40 s.
	UpdateFrequency, ReportFrequency, LeaseDuration time.Duration
	// Uptime is how long the machine has run when New is called. Zero: that isn't known.
	Uptime time.Duration
	// Metrics registers the metrics of the Node's startup. Nil: no metrics.
	Metrics prometheus.Registerer
	// Logger receives errors of the API server, once when they begin and once when they end. Nil discards.
	Logger *slog.Logger
}

// Machine is the machine and its container runtime. Run calls the functions, from one goroutine.
type Machine struct {
	// Info returns the machine's resources.
	Info func() nodeinfo.Info
	// Runtime returns the state of the container runtime: RuntimeWatch.State.
	Runtime func() nodestatus.Runtime
	// Pressure returns the resources that the node is short of. Nil: none.
	Pressure func() nodestatus.Pressure
	// Images lists the images on the node; it is called at most every 30 s. Nil: the status lists none.
	Images func(context.Context) ([]*runtimeapi.Image, error)
	// PodCIDRs is called with the pods' address ranges ("10.1.0.0/24", or two with a comma) when the cluster has assigned or changed them,
	// and again at each interval until it returns no error. Nil: no call is made.
	PodCIDRs func(ctx context.Context, cidrs string) error
}

// Node keeps a Node object.
type Node struct {
	cfg Config
	// machine is set by Run.
	machine Machine
	// woken has a value if the status may have changed.
	woken chan struct{}
	// registered is closed when the Node object has been seen.
	registered chan struct{}
	log        *slog.Logger

	// The fields from here to mu belong to the goroutine that registers and posts.
	registering, posting, addressing, assigning, doubling *trouble
	startup                                               *startup

	// reported is the time of the last post, wanted the status that was posted, and version the object's version
	// after it.
	reported time.Time
	wanted   v1.NodeStatus
	version  string
	// delay is added to ReportFrequency, once, so that nodes don't all report at the same time.
	delay    time.Duration
	refused  map[string]bool
	images   []*runtimeapi.Image
	imagesAt time.Time
	podCIDRs string
	// reset is set while extended resources must still be set to zero, wasReady once the node has been ready, and
	// cordoned while it is unschedulable.
	reset, wasReady, cordoned bool

	mu   sync.Mutex
	seen *v1.Node
	// replaced is closed, and replaced, when another object, or none, has been seen.
	replaced chan struct{}
	// failing is set if the last request to register or to post failed.
	failing bool
}

// New returns a Node that isn't running.
func New(cfg Config) *Node {
	setDefault(&cfg.UpdateFrequency, defaultUpdateFrequency)
	setDefault(&cfg.ReportFrequency, defaultReportFrequency)
	setDefault(&cfg.LeaseDuration, defaultLeaseDuration)
	if cfg.MaxImages == nil {
		most := defaultMaxImages
		cfg.MaxImages = &most
	}
	if cfg.DeclaredFeatures == nil {
		cfg.DeclaredFeatures = func(*runtimeapi.RuntimeFeatures) []string { return nil }
	}
	if cfg.NotReady == nil {
		cfg.NotReady = func() []error { return nil }
	}
	if cfg.Attached == nil {
		cfg.Attached = func() {}
	}
	if cfg.Event == nil {
		cfg.Event = func(nodestatus.Event) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	log := cfg.Logger.With("node", cfg.Name)
	n := &Node{
		cfg: cfg, woken: make(chan struct{}, 1), registered: make(chan struct{}), replaced: make(chan struct{}), log: log, refused: map[string]bool{}, reset: cfg.ResetExtended,
		startup:     newStartup(cfg.Uptime, cfg.Metrics),
		registering: &trouble{log: log, what: "the node can't be registered; trying again", end: "the node is registered"},
		posting:     &trouble{log: log, what: "the node's status can't be posted; trying again", end: "the node's status is posted again"},
		addressing:  &trouble{log: log, what: "the node's addresses can't be found; they stay as they were", end: "the node's addresses are known"},
		assigning: &trouble{
			log: log, what: "the pods' address ranges can't be put into use; trying again", end: "the pods' address ranges are in use",
		},
		doubling: &trouble{
			log: log, what: "another machine posts the status of this Node too: each node needs a unique name",
			end: "no other machine posts the status of this Node any more",
		},
	}
	if cfg.InUse != nil {
		cfg.InUse.setWake(n.Wake)
	}
	return n
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// Run keeps the object until ctx ends.
func (n *Node) Run(ctx context.Context, m Machine) {
	if m.Pressure == nil {
		m.Pressure = func() nodestatus.Pressure { return nodestatus.Pressure{} }
	}
	n.machine = m
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

// isRegistered waits until the Node object exists, and returns false if ctx ends before.
func (n *Node) isRegistered(ctx context.Context) bool {
	select {
	case <-n.registered:
		return true
	case <-ctx.Done():
		return false
	}
}

// Wake has the status computed again soon. It doesn't block.
func (n *Node) Wake() {
	select {
	case n.woken <- struct{}{}:
	default:
	}
}

// Failing reports whether the last attempt to register the Node, or to post its status, failed.
func (n *Node) Failing() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failing
}

func (n *Node) setFailing(failing bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failing = failing
}
