package shutdown

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/machine/logind"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
)

// Logind is a connection to logind: logind.Conn.
type Logind interface {
	Preparing(ctx context.Context) (bool, error)
	MaxDelay(ctx context.Context) (time.Duration, error)
	SetMaxDelay(delay time.Duration) error
	Reload(ctx context.Context) error
	Inhibit(ctx context.Context) (io.Closer, error)
	Changed() <-chan struct{}
	Lost() <-chan struct{}
	Close()
}

// Pods are the pods of this node: the Agent.
type Pods interface {
	// Restored is closed when the pods of before the restart are there.
	Restored() <-chan struct{}
	// Unended returns the pods that haven't ended.
	Unended() []*v1.Pod
	// End ends a pod with a grace period in seconds. That of a terminating pod is only shortened.
	End(uid types.UID, grace int64, failure status.Failure)
	// Gone reports whether all of the pod has ended, and its volumes are torn down.
	Gone(uid types.UID) bool
}

// Config configures a Manager. Run's goroutines call the functions.
type Config struct {
	// Periods are the times in which pods end. Empty: Run does nothing, and the node has no graceful shutdown.
	Periods []Period
	// Dial connects to logind.
	Dial func(context.Context) (Logind, error)
	// StateFile is the file with the times of the last shutdown: graceful_node_shutdown_state in the root directory.
	StateFile string
	// Changed is called when a shutdown begins, and when it is cancelled. May be nil.
	Changed func()
	// Reported reports whether the API server has the statuses of the node and of its pods, or doesn't answer. Nil: there
	// is none.
	Reported func() bool
	// Event receives events of the Node. May be nil.
	Event func(nodestatus.Event)
	// Clock is for all times. Nil means the real one.
	Clock clock.WithTicker
	// Metrics registers the times of the last shutdown. Nil: no metrics.
	Metrics prometheus.Registerer
	// Logger receives what happens to the node, and why it can't be shut down gracefully. Nil discards.
	Logger *slog.Logger
}

// Manager ends the pods before a shutdown. It is safe for concurrent use.
type Manager struct {
	cfg    Config
	log    *slog.Logger
	record *record
	pods   Pods
	// known is closed when it is known whether a shutdown is prepared.
	known     chan struct{}
	knownOnce sync.Once
	// draining is the goroutine that ends the pods, and stopDrain ends it. Only Run's goroutine uses them.
	draining  sync.WaitGroup
	stopDrain context.CancelFunc
	// answered is set once logind has answered. extended is when this connection's logind was asked for a longer delay, or
	// zero; short is the delay that was logged as too short, or the wanted one. Only Run's goroutine uses them.
	answered bool
	extended time.Time
	short    time.Duration

	mu sync.Mutex
	// shuttingDown is set while a shutdown is prepared.
	shuttingDown bool
	// presumed is until when a shutdown counts as prepared though logind hasn't answered since the start of podexecd: one
	// was recorded before, and its end wasn't.
	presumed time.Time
	// granted is the delay that logind grants. It is the wanted one before logind has said.
	granted time.Duration
	// lock is the lock that is held, or nil.
	lock io.Closer
	// trouble is why a shutdown can't be delayed now; nil if it can.
	trouble error
}

// errNotYet is the trouble before logind was asked.
var errNotYet = errors.New("logind wasn't asked yet")

// New returns a Manager that isn't running.
func New(cfg Config) *Manager {
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	if cfg.Reported == nil {
		cfg.Reported = func() bool { return true }
	}
	if cfg.Event == nil {
		cfg.Event = func(nodestatus.Event) {}
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Manager{
		cfg: cfg, log: cfg.Logger, record: newRecord(cfg), known: make(chan struct{}), stopDrain: func() {}, granted: Total(cfg.Periods), short: Total(cfg.Periods),
	}
	if len(cfg.Periods) > 0 {
		m.trouble = errNotYet
	}
	return m
}

// The reason and message of a pod that isn't admitted, as in the kubelet.
const notAdmitted = "Pod was rejected as the node is shutting down."

// Admit reports whether no pod is admitted now, and why.
func (m *Manager) Admit(*v1.Pod) (why admit.Rejection, refused bool) {
	if m.Status() == nil {
		return admit.Rejection{}, false
	}
	return admit.Rejection{Reason: admit.NodeShutdown, Message: notAdmitted, Transient: true}, true
}

// errShuttingDown is the kubelet's message of the Node's condition Ready.
var errShuttingDown = errors.New("node is shutting down")

// Status returns an error while a shutdown is prepared.
func (m *Manager) Status() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shuttingDown || m.cfg.Clock.Now().Before(m.presumed) {
		return errShuttingDown
	}
	return nil
}

// Trouble returns why a shutdown would not be delayed for the pods; nil if it would, or if that isn't configured.
func (m *Manager) Trouble() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.trouble
}

// Await returns when it is known whether a shutdown is prepared, and after a short time if logind doesn't answer.
func (m *Manager) Await(ctx context.Context) {
	if len(m.cfg.Periods) == 0 {
		return
	}
	timer := m.cfg.Clock.NewTimer(firstAnswer)
	defer timer.Stop()
	select {
	case <-m.known:
	case <-timer.C():
	case <-ctx.Done():
	}
}

// firstAnswer is how long podexecd waits for logind when it starts.
const firstAnswer = 2 * time.Second

// set records whether a shutdown is prepared, as logind says, and acts upon it.
func (m *Manager) set(ctx context.Context, preparing bool) {
	m.mu.Lock()
	changed := m.shuttingDown != preparing
	m.shuttingDown = preparing
	presumed := m.forget()
	granted := m.granted
	m.mu.Unlock()
	first := !m.answered
	m.answered = true
	m.knownOnce.Do(func() { close(m.known) })
	if !changed {
		if presumed {
			m.cfg.Changed()
		}
		return
	}
	m.stopDrain()
	m.draining.Wait()
	message := "Shutdown manager detected shutdown cancellation"
	if preparing {
		message = "Shutdown manager detected shutdown event"
		var draining context.Context
		draining, m.stopDrain = context.WithCancel(ctx)
		begun := m.record.begin(first, granted)
		m.draining.Go(func() { m.drain(draining, begun, granted) })
	} else {
		m.log.Info("the shutdown of the machine was cancelled; pods are admitted again")
	}
	m.cfg.Event(nodestatus.Event{Type: events.Normal, Reason: events.NodeShutdown, Message: message})
	m.cfg.Changed()
}

// presume has a shutdown count as prepared for that time.
func (m *Manager) presume(rest time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.presumed = m.cfg.Clock.Now().Add(rest)
}

// forget ends what presume began, and reports whether there was something to end. The caller holds mu.
func (m *Manager) forget() (had bool) {
	had = !m.presumed.IsZero()
	m.presumed = time.Time{}
	return had
}

// grant sets the delay that logind grants.
func (m *Manager) grant(delay time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.granted = delay
}

// hold replaces the lock.
func (m *Manager) hold(lock io.Closer) {
	m.mu.Lock()
	before := m.lock
	m.lock = lock
	m.mu.Unlock()
	if before != nil {
		_ = before.Close()
	}
}

// release closes the lock: the shutdown goes on.
func (m *Manager) release() { m.hold(nil) }

var _ Logind = (*logind.Conn)(nil)
