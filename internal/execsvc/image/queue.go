package image

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// queue is the pulls that are wanted. It is guarded by the Puller's lock.
type queue struct {
	// pulls are all, by image and credentials.
	pulls map[string]*pull
	// waiting are those that haven't had their turn, in order; begun is how many have.
	waiting []*pull
	begun   int
	// asks counts all that ever were.
	asks uint64
	// limit is Config.QPS. Nil: there is none.
	limit *rate.Limiter
}

// pull is one pull of an image, for all who want it with the same credentials.
type pull struct {
	key         string
	ref         reference
	credentials []*runtimeapi.AuthConfig
	// turn is that of the ask that it was made for.
	turn uint64
	asks []*ask
	// started is when the runtime was told to pull. Zero: it hasn't been.
	started time.Time
	ctx     context.Context //nolint:containedctx // It is the pull's life.
	cancel  context.CancelFunc
}

// enqueue finds the credentials for an ask and the pull that will answer it, or makes one.
func (p *Puller) enqueue(a *ask) {
	credentials := p.cfg.Credentials.Lookup(a.ctx, a.pod, a.ref.repository)
	key := pullKey(a.ref, credentials)
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.ctx.Err() != nil {
		return
	}
	w := p.pulls[key]
	if w == nil {
		w = &pull{key: key, ref: a.ref, credentials: credentials, turn: a.turn}
		w.ctx, w.cancel = context.WithCancel(p.ctx)
		p.pulls[key] = w
		// It may have taken longer to find its credentials than those of pulls that were asked for later.
		at, _ := slices.BinarySearchFunc(p.waiting, w.turn, func(other *pull, turn uint64) int { return cmp.Compare(other.turn, turn) })
		p.waiting = slices.Insert(p.waiting, at, w)
	}
	w.asks = append(w.asks, a)
	a.pull = w
	p.next()
}

// pullKey is the same for pulls that may be one. It doesn't show the credentials.
func pullKey(ref reference, credentials []*runtimeapi.AuthConfig) string {
	hash := sha256.New()
	for _, c := range credentials {
		fmt.Fprintf(hash, "%q %q\n", c.GetUsername(), c.GetPassword())
	}
	return fmt.Sprintf("%s %x", ref.name, hash.Sum(nil))
}

// next begins the pulls whose turn it is. The caller holds the lock.
func (p *Puller) next() {
	for len(p.waiting) > 0 && (p.cfg.MaxParallel <= 0 || p.begun < p.cfg.MaxParallel) && p.ctx.Err() == nil {
		w := p.waiting[0]
		p.waiting = p.waiting[1:]
		p.begun++
		var turn *rate.Reservation
		if p.limit != nil {
			turn = p.limit.ReserveN(p.cfg.Clock.Now(), 1)
		}
		p.running.Go(func() { p.run(w, turn) })
	}
}

// run pulls, and answers those who wait.
func (p *Puller) run(w *pull, turn *rate.Reservation) {
	defer w.cancel()
	var image *runtimeapi.Image
	err := p.takeTurn(w.ctx, turn)
	if err == nil {
		image, err = p.fetch(w)
	}
	p.mu.Lock()
	p.begun--
	if p.pulls[w.key] == w {
		delete(p.pulls, w.key)
	}
	asks := slices.Clone(w.asks)
	p.next()
	p.mu.Unlock()
	for _, a := range asks {
		p.answer(a, w.started, image, err)
	}
}

// fetch has the runtime pull the image, and returns what it has then.
func (p *Puller) fetch(w *pull) (*runtimeapi.Image, error) {
	for _, uid := range p.begin(w) {
		p.cfg.Done(uid)
	}
	p.log.Info("pulling image", "image", w.ref.given)
	if err := p.try(w); err != nil {
		return nil, err
	}
	p.log.Info("pulled image", "image", w.ref.given, "took", p.cfg.Clock.Since(w.started))
	image, err := p.present(w.ctx, w.ref)
	if err == nil && image == nil {
		err = errors.New("the runtime pulled the image but doesn't have it")
	}
	return image, err
}

// longWait is how long a pod must have waited to be told that its pull begins. One that waits for less has hardly been shown to wait.
const longWait = time.Second

// begin notes that the runtime is told to pull, and returns the pods that have waited long for it.
func (p *Puller) begin(w *pull) (waited []types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.started = p.cfg.Clock.Now()
	for _, a := range w.asks {
		if w.started.Sub(a.asked) >= longWait && w.ctx.Err() == nil {
			waited = append(waited, a.pod.UID)
		}
	}
	return waited
}

// try pulls with one of the credentials after the other.
func (p *Puller) try(w *pull) error {
	credentials := w.credentials
	if len(credentials) == 0 {
		credentials = []*runtimeapi.AuthConfig{nil}
	}
	var errs []error
	for _, c := range credentials {
		_, err := p.cfg.Images.PullImage(w.ctx, w.ref.spec(), c, nil)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
		if w.ctx.Err() != nil {
			break
		}
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return utilerrors.NewAggregate(errs)
}

// takeTurn waits for what Config.QPS asks for.
func (p *Puller) takeTurn(ctx context.Context, turn *rate.Reservation) error {
	if turn == nil {
		return nil
	}
	delay := turn.DelayFrom(p.cfg.Clock.Now())
	if delay <= 0 {
		return nil
	}
	timer := p.cfg.Clock.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		turn.CancelAt(p.cfg.Clock.Now())
		return ctx.Err()
	}
}

// leave takes an ask from its pull, and ends the pull if nobody waits for it any more. The caller holds the lock.
func (p *Puller) leave(a *ask) {
	w := a.pull
	if w == nil {
		return
	}
	w.asks = slices.DeleteFunc(w.asks, func(other *ask) bool { return other == a })
	if len(w.asks) > 0 {
		return
	}
	w.cancel()
	if p.pulls[w.key] == w {
		delete(p.pulls, w.key)
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(other *pull) bool { return other == w })
}

func (r reference) spec() *runtimeapi.ImageSpec {
	return &runtimeapi.ImageSpec{Image: r.name, UserSpecifiedImage: r.given}
}
