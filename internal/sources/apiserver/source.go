package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/clusteruid"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources"
)

const (
	// Name is the source's name. There is only one of its kind.
	Name = "api"
	// AllNodes among Config.Nodes means the pods of every node.
	AllNodes = "*"
	// gather is how long changes after a set wait for the next one.
	gather = 5 * time.Millisecond
	// watchBurst is how many watches a reflector may begin at once.
	watchBurst = 10
)

// Config configures a Source. Exactly one of Kubeconfig, InCluster and RESTConfig is set.
type Config struct {
	// Kubeconfig is the path of a kubeconfig file. Its current context is used.
	Kubeconfig string
	// InCluster uses the service account of the pod that this runs in.
	InCluster bool
	// RESTConfig is the client's configuration itself. It is copied.
	RESTConfig *rest.Config
	// Node is the name of the node whose pods are read.
	Node string
	// Nodes are the nodes whose pods are read, if not only those of Node. If AllNodes is among them: of all.
	Nodes []string
	// Shard is the only shard of the nodes whose pods are read, of Shards, if Nodes has AllNodes: see package shard. Zero or
	// one Shards: there is one.
	Shard, Shards int
	// ChangeDetection is how changes of the objects that pods refer to are found. Empty: Watch.
	ChangeDetection ChangeDetection
	// WatchSecrets is what one watch of Secrets covers. Empty: WatchName. One of ConfigMaps covers a namespace, if there are
	// several nodes.
	WatchSecrets WatchScope
	// ClusterUID is the UID of the cluster that the API server must be of. Empty: the UID in ClusterFile or, if there is
	// none, that of the cluster that is read first.
	ClusterUID types.UID
	// ClusterFile is the file that stores that UID over a restart. Empty: it isn't stored.
	ClusterFile string
	// Known returns the UIDs of the pods that are known from this source, also from before a restart. Nil: there are
	// none.
	Known func() []types.UID
	// Positions returns the positions of the pods that are known from this source from before a restart: positions go on
	// from there. Nil: there are none.
	Positions func() position.Positions
	// Clock: nil means the system's.
	Clock clock.WithTicker
	// Logger gets a line when the server fails and works again, and for pods and objects that can't be used. Nil:
	// slog.Default().
	Logger *slog.Logger
}

// Source reads one API server. Make it with New.
type Source struct {
	cfg    Config
	server *server
	nodes  []string // nil: all of the shard
	shard  sources.Nodes
	// backoff is between the attempts of a reflector; tests have a shorter one.
	backoff wait.Backoff
	// pace is how often a reflector begins a watch, after the first watchBurst.
	pace rate.Limit
	// probeInterval is as the constant; tests have a shorter one.
	probeInterval time.Duration
	// silence is how long a streaming list that isn't complete yet may send nothing; tests have a shorter one.
	silence time.Duration
	// objects is the strategy of RunObjects, with its resync; tests have a shorter one.
	objects strategy
	resync  time.Duration
	gate    *gate
	// refusedFor is as the constant; tests have a shorter one.
	refusedFor time.Duration
	// referrals is nil unless RunObjects uses it.
	referrals *referrals
	confirms  *confirmer
	// confirmBackoff is as the variable, and confirmPatience as the constant; tests have shorter ones.
	confirmBackoff  wait.Backoff
	confirmPatience time.Duration
}

var _ sources.ObjectSource = (*Source)(nil)

// New returns a Source. It reads the kubeconfig and the files that it names, and connects to nothing yet.
func New(cfg Config) (*Source, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Known == nil {
		cfg.Known = func() []types.UID { return nil }
	}
	if cfg.Positions == nil {
		cfg.Positions = func() position.Positions { return nil }
	}
	s := &Source{cfg: cfg, backoff: wait.Backoff{
		Duration: 800 * time.Millisecond, Factor: 2, Jitter: 1, Cap: 4 * time.Second, Steps: math.MaxInt32,
	}, pace: rate.Every(time.Second), silence: initialSilence, resync: resync, probeInterval: probeInterval,
		gate: newGate(), refusedFor: refusedFor, confirms: newConfirmer(), confirmBackoff: confirmBackoff, confirmPatience: confirmPatience}
	s.shard = sources.Nodes{Shard: cfg.Shard, Shards: cfg.Shards}
	if !slices.Contains(cfg.Nodes, AllNodes) {
		s.nodes = slices.Compact(slices.Sorted(slices.Values(cfg.Nodes)))
		if len(s.nodes) == 0 {
			s.nodes = []string{cfg.Node}
		}
		if slices.Contains(s.nodes, "") {
			return nil, errors.New("source api: a node without a name")
		}
	}
	if err := cfg.WatchSecrets.Check(); err != nil {
		return nil, fmt.Errorf("source api: the scope of watches of Secrets: %w", err)
	}
	var err error
	if s.objects, err = newStrategy(s); err != nil {
		return nil, err
	}
	if _, asks := s.objects.(polling); asks {
		s.referrals = newReferrals()
	}
	client, err := clientConfig(cfg)
	if err != nil {
		return nil, err
	}
	if s.server, err = connect(client); err != nil {
		return nil, err
	}
	s.cfg.Logger = cfg.Logger.With("source", Name, "server", s.server.address)
	s.server.identity = newIdentity(&identity{
		get:   func(ctx context.Context) (types.UID, error) { return clusteruid.Get(ctx, s.server.client) },
		dials: s.server.dials.Load, address: s.server.address, pinned: cfg.ClusterUID, known: cfg.Known, positions: cfg.Positions, record: record{path: cfg.ClusterFile},
		clock: cfg.Clock, log: s.cfg.Logger,
	})
	s.server.release = &release{client: s.server.client, dials: s.server.dials.Load, clock: cfg.Clock, log: s.cfg.Logger}
	return s, nil
}

// Cluster returns the UID of the cluster that the pods are from; empty: it isn't known yet, or the API server doesn't
// show it. It is safe for concurrent use.
func (s *Source) Cluster() types.UID {
	uid, _ := s.server.identity.current()
	return uid
}

// selector is the field selector for pods.
func (s *Source) selector() fields.Selector {
	if len(s.nodes) == 1 {
		return fields.OneTermEqualSelector("spec.nodeName", s.nodes[0])
	}
	return fields.OneTermNotEqualSelector("spec.nodeName", "")
}

// mine reports whether a pod is on a node of this source.
func (s *Source) mine(pod *v1.Pod) bool {
	if s.nodes == nil {
		return pod.Spec.NodeName != "" && s.shard.Has(pod.Spec.NodeName)
	}
	_, found := slices.BinarySearch(s.nodes, pod.Spec.NodeName)
	return found
}

// hasPod reports whether a list has one of these pods: only the cluster that made a pod's UID has it.
func hasPod(list runtime.Object, uids []types.UID) bool {
	pods, ok := list.(*v1.PodList)
	return ok && slices.ContainsFunc(pods.Items, func(pod v1.Pod) bool { return pod.UID != "" && slices.Contains(uids, pod.UID) })
}

// Run reads the pods until ctx ends. Then it returns nil; it never returns an error. It calls out, always from the
// same goroutine, with the full set when it is first known, after each change, each bookmark and each answer to a
// probe, and with a set that has an Err when the server can't be read.
func (s *Source) Run(ctx context.Context, out func(manifest.Set)) error {
	ctx, cancel := context.WithCancel(ctx)
	pods := newPods(s.mine)
	pods.history = s.server.identity
	pods.at = s.stored()
	var reflector sync.WaitGroup
	reflector.Go(func() {
		r := &reader{server: s.server, resource: "pods", selector: s.selector(), observer: pods, same: hasPod, pods: pods}
		s.reflect(ctx, r, &v1.Pod{}, pods)
	})
	reflector.Go(func() { s.probe(ctx, pods) })
	reflector.Go(func() { s.confirm(ctx, pods) })
	defer s.server.closeIdle()
	defer reflector.Wait()
	defer cancel()

	e := &emitter{
		log: s.cfg.Logger, clock: s.cfg.Clock, address: s.server.address, referrals: s.referrals, out: out,
		comparable: s.server.release.comparable.Load,
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pods.signal:
		}
		e.emit(pods.take())
		timer := s.cfg.Clock.NewTimer(gather)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

// quietly makes client-go log to the Source's logger, as debug messages.
func (s *Source) quietly(ctx context.Context) (context.Context, klog.Logger) {
	logger := logr.FromSlogHandler(debugHandler{s.cfg.Logger.With("from", "client-go").Handler()})
	return klog.NewContext(ctx, logger), logger
}
