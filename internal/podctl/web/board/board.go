package board

import (
	"context"
	"sync"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/podctl/podsummary"
	"github.com/podstream/podstream/internal/podctl/web/feed"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// Config configures a Board. Clock and Unified are needed.
type Config struct {
	Clock clock.PassiveClock
	// Unified returns the difference of two pods in the form of diff -u, with so many lines of context.
	Unified func(before, after *corev1.Pod, context int) (string, error)
	// ReadManifest returns the content of a manifest of a source, at a path of podconfigd's. Nil: podctl can't read manifests.
	ReadManifest func(ctx context.Context, location, path string) ([]byte, error)
	// TimelineBytes bounds the timeline. Zero means 64 MiB.
	TimelineBytes int
	// ObservedBytes bounds the observed pods. Zero means 256 MiB.
	ObservedBytes int
}

// Board is safe for concurrent use.
type Board struct {
	cfg Config

	// Timeline is what podconfigd published.
	Timeline *Timeline
	// Pods have one row for each pod, desired or observed. Nodes have one for each node of the desired pods and of the
	// consumers.
	Pods  *feed.Table[*podwebv1.PodRow]
	Nodes *feed.Table[*podwebv1.NodeRow]
	// Sources, Consumers and Events are as the daemons listed them.
	Sources   *feed.Table[*podwebv1.SourceRow]
	Consumers *feed.Table[*podwebv1.ConsumerRow]
	Events    *feed.Table[*podwebv1.EventRow]
	// Stats are samples of the node and its pods.
	Stats *feed.Log[*podwebv1.StatsSample]

	// Desired to StatsLink are the states of the streams and lists.
	Desired, Observed, EventsLink, SourcesLink, ConsumersLink, StatsLink *Link
	// Want counts the tabs that need a list, by its topic.
	Want Wants

	// manifests are those that ApplySources has read, by path.
	manifests map[string]*keptManifest

	mu sync.Mutex
	// desired and observed are by UID, uids by key.
	desired  map[string]*desiredPod
	observed map[string]*podexecv1.ObservedPod
	uids     map[string]string
	have     podsummary.Answered
	// bytes is the size of the desired pods' contents that are kept.
	bytes int
	// observedBytes is the size of observed.
	observedBytes int
	// nodePods counts the desired pods by node, and nodeReports is what the consumers of a node report.
	nodePods    map[string]int
	nodeReports map[string]*podwebv1.NodeRow
	gateway     bool
	// events are the keys of the events' rows, the oldest first.
	events []string
}

// New returns an empty Board.
func New(cfg Config) *Board {
	if cfg.ObservedBytes == 0 {
		cfg.ObservedBytes = maxObserved
	}
	b := &Board{
		cfg: cfg, Timeline: newTimeline(cfg), Pods: table[*podwebv1.PodRow](), Nodes: table[*podwebv1.NodeRow](),
		Sources: table[*podwebv1.SourceRow](), Consumers: table[*podwebv1.ConsumerRow](), Events: table[*podwebv1.EventRow](),
		desired: map[string]*desiredPod{}, observed: map[string]*podexecv1.ObservedPod{}, uids: map[string]string{},
		manifests: map[string]*keptManifest{}, nodePods: map[string]int{}, nodeReports: map[string]*podwebv1.NodeRow{},
	}
	// 30 min of a sample each 5 s.
	const samples, sampleBytes = 360, 16 << 20
	b.Stats = feed.NewLog[*podwebv1.StatsSample](samples, sampleBytes, nil)
	for _, link := range []**Link{&b.Desired, &b.Observed, &b.EventsLink, &b.SourcesLink, &b.ConsumersLink, &b.StatsLink} {
		*link = NewLink(cfg.Clock.Now)
	}
	return b
}

// table returns a table of messages.
func table[M proto.Message]() *feed.Table[M] {
	return feed.NewTable(func(a, b M) bool { return proto.Equal(a, b) }, func(m M) int { return proto.Size(m) })
}

// UID returns the UID of the pod with a key.
func (b *Board) UID(key string) (uid string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	uid, ok = b.uids[key]
	return uid, ok
}

// Pod returns the halves of the pod with a UID, as far as they are kept. Nil: there is none.
func (b *Board) Pod(uid string) (desired *podconfigv1.Pod, observed *podexecv1.ObservedPod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d := b.desired[uid]; d != nil {
		desired = d.pod
	}
	return desired, b.observed[uid]
}

// Answered reports which daemons have sent their pods.
func (b *Board) Answered() podsummary.Answered {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.have
}

// Gateway reports whether podconfigd serves several nodes.
func (b *Board) Gateway() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.gateway
}

// findGateway sets gateway: once a gateway, always one. The caller holds b.mu.
func (b *Board) findGateway() {
	nodes := 0
	for name := range b.nodePods {
		if name != "" {
			nodes++
		}
	}
	for name := range b.nodeReports {
		if b.nodePods[name] == 0 {
			nodes++
		}
	}
	b.gateway = b.gateway || nodes > 1
}

// Refresh computes the rows again whose text depends on the time.
func (b *Board) Refresh() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.cfg.Clock.Now()
	for key, row := range b.Pods.Rows() {
		if row.GetObserved() && row.GetHealth() != podwebv1.Health_HEALTH_GOOD {
			b.show(b.uids[key], now)
		}
	}
}

// Wants counts who needs the lists. It is safe for concurrent use.
type Wants struct {
	mu      sync.Mutex
	counts  map[string]int
	changed chan struct{}
}

// Add counts a tab that needs a topic, until done is called.
func (w *Wants) Add(topic string) (done func()) {
	w.add(topic, 1)
	return sync.OnceFunc(func() { w.add(topic, -1) })
}

func (w *Wants) add(topic string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counts == nil {
		w.counts = map[string]int{}
	}
	w.counts[topic] += n
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// Any reports whether a tab needs one of the topics. changed is closed when that may have changed.
func (w *Wants) Any(topics ...string) (wanted bool, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	for _, topic := range topics {
		wanted = wanted || w.counts[topic] > 0
	}
	return wanted, w.changed
}

// The topics of Wants.
const (
	WantSources   = "sources"
	WantConsumers = "consumers"
	WantNodes     = "nodes"
	WantStats     = "stats"
)

// AddStats adds a sample.
func (b *Board) AddStats(s *podwebv1.StatsSample) { b.Stats.Append(s, proto.Size(s)) }
