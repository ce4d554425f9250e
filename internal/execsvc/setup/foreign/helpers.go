package foreign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

const (
	// MaxHelpers is the maximum number of helpers for a volume, and maxAll that for all volumes. For an unmount it is unmountFactor times as
	// large: it is what ends the others if their server doesn't answer.
	MaxHelpers    = 4
	maxAll        = 512
	unmountFactor = 2
	// defaultLimit is the limit of a job.
	defaultLimit = 30 * time.Second
	// defaultGrace is the time in which a helper ends that was killed, unless it is in state D.
	defaultGrace = 2 * time.Second
)

// Config configures Helpers.
type Config struct {
	// Limit is the limit of a job whose context has no deadline. Zero: 30 s.
	Limit time.Duration
	// Grace is how long Do and Close wait for a helper that they have killed. Zero: 2 s.
	Grace time.Duration
	// Dir is a directory on the node's disk, which is created, for notes of helpers that mount. What an earlier start of podexecd has left
	// of them, which may still mount, is known by these. Empty: only helpers that still run themselves are known. Boot is the kernel's boot ID.
	Dir, Boot string
	// Log receives helpers that don't end. Nil: the default logger.
	Log *slog.Logger
}

// Helpers starts and counts helpers. It is safe for concurrent use.
type Helpers struct {
	cfg Config
	// fork starts a helper's program. Tests replace it.
	fork func(*exec.Cmd) error

	mu     sync.Mutex
	closed bool
	// running are the helpers that haven't ended, by volume; all is their number.
	running map[string]map[*process]bool
	all     int
	// leftovers are helpers of earlier starts.
	leftovers []leftover

	// reading is held while the notes of earlier starts are read. wasRead is set when they have been.
	reading sync.Mutex
	wasRead bool
}

// New returns Helpers. They count the helpers that an earlier start of podexecd has left.
func New(cfg Config) *Helpers {
	if cfg.Limit == 0 {
		cfg.Limit = defaultLimit
	}
	if cfg.Grace == 0 {
		cfg.Grace = defaultGrace
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	h := &Helpers{cfg: cfg, fork: (*exec.Cmd).Start, running: map[string]map[*process]bool{}, leftovers: findLeftovers()}
	if err := h.read(); err != nil {
		cfg.Log.Error("nothing is mounted by helper processes until this can be read", "error", err)
	}
	return h
}

// Do does the job for a volume in a helper, and returns its answer. It returns soon after ctx has ended, whatever the file
// system does. volume is a name for people, such as "server:/path"; jobs of one file system must have the same.
func (h *Helpers) Do(ctx context.Context, volume string, job Job) (Answer, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, h.cfg.Limit, fmt.Errorf("no answer within %s", h.cfg.Limit))
		defer cancel()
	}
	return h.do(ctx, volume, job, nil)
}

// Stream does a job that has a stream, of which data is the helper's end of a pipe. Stream closes it. The job has no limit but
// ctx. That of an Import is in tree.Frames.
func (h *Helpers) Stream(ctx context.Context, volume string, job Job, data *os.File) (Answer, error) {
	return h.do(ctx, volume, job, data)
}

func (h *Helpers) do(ctx context.Context, volume string, job Job, data *os.File) (Answer, error) {
	target := job.undoes()
	if target == "" {
		return h.perform(ctx, volume, job, data)
	}
	// A mount that hasn't ended may follow the unmount, and end before it is looked for. So may the hold of a device.
	before := h.mounting(volume, target)
	a, err := h.perform(ctx, volume, job, data)
	if err == nil {
		err = cmp.Or(before, h.mounting(volume, target))
	}
	return a, err
}

func (h *Helpers) perform(ctx context.Context, volume string, job Job, data *os.File) (Answer, error) {
	if err := ctx.Err(); err != nil {
		if data != nil {
			_ = data.Close()
		}
		return Answer{}, &Error{Text: context.Cause(ctx).Error(), Unchanged: true}
	}
	began := time.Now()
	p, err := h.start(volume, &job, data)
	if data != nil {
		_ = data.Close() // The helper has it now.
	}
	if err != nil {
		return Answer{}, err
	}
	select {
	case <-p.answered:
		if p.target != "" {
			// mount(8) may have ended, and left a process that mounts later.
			select {
			case <-p.ended:
			case <-ctx.Done():
			}
		}
		if !h.awaitEnd(p) && p.target != "" {
			return Answer{}, &AbandonedError{Volume: volume, PID: p.pid(), After: time.Since(began), Cause: errLeft}
		}
		return p.answer()
	case <-ctx.Done():
	}
	p.kill()
	timer := time.NewTimer(h.cfg.Grace)
	defer timer.Stop()
	abandoned := &AbandonedError{Volume: volume, PID: p.pid(), After: time.Since(began), Cause: context.Cause(ctx)}
	select {
	case <-p.ended:
		if p.hasAnswer() {
			return p.answer()
		}
		abandoned.Ended = true
	case <-timer.C:
		h.cfg.Log.Warn("a helper process for a volume can't be ended; it is counted until the file system answers",
			"volume", volume, "pid", p.pid(), "job", job.kind())
	}
	return Answer{}, abandoned
}

// awaitEnd waits a while for the end of a helper that has answered: it doesn't count for the caller's next job. It reports whether the
// helper has ended, and what it has started.
func (h *Helpers) awaitEnd(p *process) bool {
	timer := time.NewTimer(h.cfg.Grace)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}

// start starts a helper, unless there are too many. It doesn't hold the lock meanwhile: to start a process of a large program takes
// a while.
func (h *Helpers) start(volume string, job *Job, data *os.File) (*process, error) {
	p, err := newProcess(volume, job, data)
	if err != nil {
		return nil, startError(volume, err)
	}
	if p.target != "" {
		err = h.read()
	}
	if err != nil {
		p.discard()
		return nil, startError(volume, err)
	}
	if err := h.add(p, job); err != nil {
		p.discard()
		return nil, err
	}
	if err := p.start(h.fork); err != nil {
		h.ended(p)
		close(p.ended)
		if errors.Is(err, ErrClosed) {
			return nil, err
		}
		return nil, startError(volume, err)
	}
	failed := h.write(p)
	if failed != nil {
		// It gets no job.
		p.kill()
		p.job = nil
	}
	go func() {
		p.run()
		h.erase(p)
		h.ended(p)
		close(p.ended)
	}()
	if failed != nil {
		return nil, startError(volume, fmt.Errorf("record where it mounts: %w", failed))
	}
	return p, nil
}

func startError(volume string, err error) error {
	return &Error{Text: fmt.Sprintf("start a helper process for volume %s: %v", volume, err), Unchanged: true}
}

// add counts a helper that isn't started yet, unless there are too many.
func (h *Helpers) add(p *process, job *Job) error {
	most, all := MaxHelpers, maxAll
	if job.undoes() != "" {
		most, all = most*unmountFactor, all*unmountFactor
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	left := h.leftoversOf(p.volume)
	switch earlier := h.mountsAt(p.volume, p.target); {
	case h.closed:
		return ErrClosed
	case earlier != nil:
		return earlier
	case changesTree[job.kind()] && h.changing(p.volume) != nil:
		return h.changing(p.volume)
	case len(h.running[p.volume])+len(left) >= most:
		pids := append(h.pids(p.volume), left...)
		slices.Sort(pids)
		return &BusyError{Volume: p.volume, PIDs: pids, Claims: job.onClaims()}
	case h.all >= all:
		return &BusyError{PIDs: h.pids("")}
	}
	if h.running[p.volume] == nil {
		h.running[p.volume] = map[*process]bool{}
	}
	h.running[p.volume][p] = true
	h.all++
	return nil
}

// ended forgets a helper.
func (h *Helpers) ended(p *process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all--
	delete(h.running[p.volume], p)
	if len(h.running[p.volume]) == 0 {
		delete(h.running, p.volume)
	}
}

// pids returns the processes of a volume; empty: of all. mu is held.
func (h *Helpers) pids(volume string) []int {
	var pids []int
	for name, of := range h.running {
		for p := range of {
			// One that is being started has no number yet.
			if pid := p.pid(); pid != 0 && (volume == "" || name == volume) {
				pids = append(pids, pid)
			}
		}
	}
	slices.Sort(pids)
	return pids
}

// Close kills all helpers, and waits a while for their end. Those in state D are left. No job is done after it.
func (h *Helpers) Close() {
	h.mu.Lock()
	h.closed = true
	var all []*process
	for _, of := range h.running {
		for p := range of {
			all = append(all, p)
		}
	}
	h.mu.Unlock()
	for _, p := range all {
		p.kill()
	}
	timer := time.NewTimer(h.cfg.Grace)
	defer timer.Stop()
	for _, p := range all {
		select {
		case <-p.ended:
		case <-timer.C:
			return
		}
	}
}
