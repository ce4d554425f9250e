package nodefs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/podstream/podstream/internal/execsvc/machine/share"
)

// ErrNoAnswer is wrapped by the error of a look that takes too long.
var ErrNoAnswer = errors.New("its file system doesn't answer")

// errUnasked is wrapped by the error of a look that exceeds the number of looks.
var errUnasked = errors.New("too many paths are waited for already")

// Config has the bounds of a Waits.
type Config struct {
	// Timeout is how long a look may take. Zero: 10 s.
	Timeout time.Duration
	// Places is how many looks may run at once. Zero: 64.
	Places int
}

// perPod is how many looks of one pod may run at once: each attempt of its worker may leave one behind.
const perPod = 4

// Waits counts the running looks. It is safe for concurrent use.
type Waits struct {
	timeout time.Duration
	places  *share.Pool
}

// New returns a Waits without looks.
func New(cfg Config) *Waits {
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Places == 0 {
		cfg.Places = 64
	}
	return &Waits{timeout: cfg.Timeout, places: share.New(cfg.Places)}
}

// Pod is the pod that a look is for. Namespace may be empty if it isn't known.
type Pod struct{ UID, Namespace string }

func (p Pod) holders() []share.Holder {
	out := []share.Holder{{Name: "pod " + p.UID, Most: perPod}}
	if p.Namespace != "" {
		out = append(out, share.Holder{Name: "namespace " + p.Namespace})
	}
	return out
}

// Look returns the result of look, or an error if that takes too long or too many looks are running. look may continue
// after that, so it shares nothing with its caller; drop then gets its result. Nil: the result needs no clean-up.
func Look[T any](ctx context.Context, w *Waits, pod Pod, path string, look func() (T, error), drop func(T)) (T, error) {
	var none T
	leave, err := w.places.Take(pod.holders()...)
	if err != nil {
		return none, fmt.Errorf("%s can't be looked at: %w: %w", path, errUnasked, err)
	}
	type answer struct {
		value T
		err   error
	}
	answers, left := make(chan answer), make(chan struct{})
	go func() {
		defer leave()
		value, err := look()
		select {
		case answers <- answer{value, err}:
		case <-left:
			if err == nil && drop != nil {
				drop(value)
			}
		}
	}()
	timer := time.NewTimer(w.timeout)
	defer timer.Stop()
	defer close(left)
	select {
	case a := <-answers:
		return a.value, a.err
	case <-timer.C:
		return none, fmt.Errorf("look at %s: %w within %v", path, ErrNoAnswer, w.timeout)
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}
