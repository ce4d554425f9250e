package podexecd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// errNoProgress is returned by progress.alive.
var errNoProgress = errors.New("the sync loop doesn't answer")

// stateInterval is the interval at which the state is read for systemd.
const stateInterval = 2 * time.Second

// progress passes requests for a sign of progress to the sync loop. Until the sync loop runs, podexecd waits for the
// container runtime, and the goroutine of await answers. It also records what podexecd waits for.
type progress struct {
	pulses chan chan<- struct{}
	// looping is closed when the agent exists and its sync loop is about to run.
	looping chan struct{}

	mu sync.Mutex
	// down is why the container runtime doesn't answer, since then. Nil: it answers, or it is unknown.
	down  error
	since time.Time
	// answered is set once the runtime's pods were read.
	answered bool
}

func newProgress() *progress {
	return &progress{pulses: make(chan chan<- struct{}), looping: make(chan struct{})}
}

// alive returns an error if nothing answers before ctx ends.
func (p *progress) alive(ctx context.Context) error {
	answer := make(chan struct{})
	select {
	case p.pulses <- answer:
	case <-ctx.Done():
		return errNoProgress
	}
	<-answer // It is closed as soon as it was received.
	return nil
}

// await answers until the sync loop runs, or ctx ends.
func (p *progress) await(ctx context.Context) {
	for {
		select {
		case answer := <-p.pulses:
			close(answer)
		case <-p.looping:
			return
		case <-ctx.Done():
			return
		}
	}
}

// runtime records whether the container runtime answers.
func (p *progress) runtime(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && p.down == nil {
		p.since = time.Now()
	}
	p.down, p.answered = err, p.answered || err == nil
}

// missingRuntime returns what is wrong with the container runtime, or "".
func (p *progress) missingRuntime() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.down != nil:
		return fmt.Sprintf("runtime: unreachable since %s (%v)", p.since.Format(time.RFC3339), p.down)
	case !p.answered:
		return "runtime: no answer yet"
	}
	return ""
}

// state returns the line for systemd: what podexecd waits for, or that it waits for nothing.
func (n *node) state() string {
	var missing []string
	select {
	case <-n.progress.looping:
		for _, source := range n.agent.Unready() {
			missing = append(missing, "waiting for source "+source)
		}
	default:
	}
	if runtime := n.progress.missingRuntime(); runtime != "" {
		missing = append(missing, runtime)
	}
	if !n.stream.Connected() {
		missing = append(missing, "podconfigd: not connected")
	}
	if err := n.shutdown.Trouble(); err != nil {
		missing = append(missing, fmt.Sprintf("shutdown: can't be delayed (%v)", err))
	}
	if n.shutdown.Status() != nil {
		missing = append(missing, "the machine shuts down")
	}
	if len(missing) == 0 {
		return fmt.Sprintf("running; pods: %d", len(n.board.All()))
	}
	return strings.Join(missing, "; ")
}

// reportState passes the state to set until ctx ends.
func (n *node) reportState(ctx context.Context, set func(string)) {
	ticker := time.NewTicker(stateInterval)
	defer ticker.Stop()
	for {
		set(n.state())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
