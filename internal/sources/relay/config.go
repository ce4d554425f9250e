package relay

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/client/position"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// EveryNode as the only one of Config.Nodes relays the pods of all nodes.
const EveryNode = "*"

// Config configures a Source.
type Config struct {
	// Name is the source's name: "relay" or "relay:NAME". Empty: "relay".
	Name string
	// Endpoint is the upstream's address, unix:///path or tcp://host:port, or several of one kind with commas between,
	// as client.Config has it. It is required.
	Endpoint string
	// Order is the order in which several addresses are tried. Empty: client.Random.
	Order client.Order
	// CertFile, KeyFile and CAFile are the certificates for an endpoint tcp://host:port, as client.TLS has them.
	CertFile, KeyFile, CAFile string
	// ID is this podconfigd's own id, and Node the name of its node. Both are required.
	ID, Node string
	// Nodes are the nodes whose pods are relayed, by spec.nodeName; EveryNode alone: all. Nil: Node.
	Nodes []string
	// Consumer is the relay's name as a consumer of the upstream. Empty: NAME@NODE on a Unix socket; over TLS the
	// certificate's common name, as the upstream accepts no other.
	Consumer string
	// Stored is called once, at the start of Run: the pods that the local store has of this source. Nil: there are
	// none.
	Stored func() []Stored
	// Positions is called once, at the start of Run, if there are stored pods: how far they follow the clusters that they
	// come from, as the local store has it for this source. An upstream that is behind changes nothing. Nil: it isn't
	// known.
	Positions func() position.Positions
	// MaxPods and MaxBytes limit what is taken of the upstream: the number of pods and their size in protobuf, and
	// the same again for objects. Zero: the constants. Exceeding them is an error, and the previous pods stay.
	MaxPods, MaxBytes int
	// Heartbeat is the interval of a quiet upstream's heartbeats; after three times that it counts as dead. Zero: 5
	// s; less than 1 s is taken as 1 s.
	Heartbeat time.Duration
	// Patience is how long an upstream that sends heartbeats may leave a unit incomplete. Zero: 1 min.
	Patience time.Duration
	// Backoff is the wait before another attempt.
	Backoff Backoff
	// Clock times the waits between attempts. Nil: the system's.
	Clock clock.WithTicker
	// Logger gets a line when the upstream is lost, and when it is back. Nil: slog.Default().
	Logger *slog.Logger
}

// The defaults of Config.MaxPods and Config.MaxBytes.
const (
	MaxPods  = 20_000
	MaxBytes = 256 << 20
)

// Stored is one pod of the local store.
type Stored struct {
	// Origin is the name of its origin in the store.
	Origin string
	// Pod is as it was served, with all annotations. It isn't changed.
	Pod *v1.Pod
	// SpecDigest and StatusDigest are as they were stored.
	SpecDigest, StatusDigest string
}

// Backoff is the time between two attempts: it doubles from Min to Max, and each wait is lengthened at random by up
// to half. A refusal, a loop and an invalid stream are only resolved by a person or by time: then it goes from ten
// times Min to three times Max, and is lengthened by up to its own length.
type Backoff struct {
	// Min and Max: zero means 100 ms and 10 s.
	Min, Max time.Duration
}

func (cfg Config) withDefaults() (Config, error) {
	if cfg.Name == "" {
		cfg.Name = "relay"
	}
	if cfg.ID == "" || cfg.Node == "" {
		return cfg, errors.New("no id or no node of its own")
	}
	if _, err := client.SplitEndpoints(cfg.Endpoint); err != nil {
		return cfg, fmt.Errorf("endpoint %q: %w", cfg.Endpoint, err)
	}
	switch {
	case len(cfg.Nodes) == 0:
		cfg.Nodes = []string{cfg.Node}
	case slices.Contains(cfg.Nodes, EveryNode) && len(cfg.Nodes) > 1:
		return cfg, fmt.Errorf("nodes %q: %s must be the only one", cfg.Nodes, EveryNode)
	}
	if cfg.Consumer == "" && strings.HasPrefix(cfg.Endpoint, "unix://") {
		cfg.Consumer = cfg.Name + "@" + cfg.Node
	}
	if cfg.Stored == nil {
		cfg.Stored = func() []Stored { return nil }
	}
	if cfg.Positions == nil {
		cfg.Positions = func() position.Positions { return nil }
	}
	if cfg.MaxPods == 0 {
		cfg.MaxPods = MaxPods
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = MaxBytes
	}
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = 5 * time.Second
	}
	cfg.Heartbeat = max(cfg.Heartbeat, time.Second)
	if cfg.Patience == 0 {
		cfg.Patience = time.Minute
	}
	if cfg.Backoff.Min == 0 {
		cfg.Backoff.Min = 100 * time.Millisecond
	}
	if cfg.Backoff.Max == 0 {
		cfg.Backoff.Max = 10 * time.Second
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	cfg.Logger = cfg.Logger.With("source", cfg.Name, "upstream", cfg.Endpoint)
	return cfg, nil
}

// filter selects the pods that are relayed. Nil: all.
func (cfg Config) filter() *podconfigv1.PodFilter {
	if slices.Contains(cfg.Nodes, EveryNode) {
		return nil
	}
	return &podconfigv1.PodFilter{Nodes: cfg.Nodes}
}

// checkNode returns an error if the upstream sends a pod of a node that wasn't requested.
func (cfg Config) checkNode(pod *v1.Pod) error {
	if slices.Contains(cfg.Nodes, EveryNode) || slices.Contains(cfg.Nodes, pod.Spec.NodeName) {
		return nil
	}
	return fmt.Errorf("is of node %.64q, whose pods weren't requested", pod.Spec.NodeName)
}

// silence is how long the upstream may send nothing.
func (cfg Config) silence() time.Duration { return 3 * cfg.Heartbeat }

// dial returns a connection, which the first call opens.
func (cfg Config) dial() (*client.Client, error) {
	return client.New(client.Config{
		Endpoint: cfg.Endpoint, Order: cfg.Order, SpreadKey: cfg.Node,
		TLS:      client.TLS{CertFile: cfg.CertFile, KeyFile: cfg.KeyFile, CAFile: cfg.CAFile},
		Consumer: cfg.Consumer, Logger: cfg.Logger,
	})
}
