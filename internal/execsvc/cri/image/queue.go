package image

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/cri/pullprogress"
	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// queue has the requested pulls. The Puller's lock guards it.
type queue struct {
	// pulls has all, by image and credentials.
	pulls map[string]*pull
	// waiting are those that haven't started, by turn and number; begun is how many have. turn is the last one's that
	// started.
	waiting []*pull
	begun   int
	turn    uint64
	// asks counts all requests so far that are or were under way.
	asks uint64
	// pulled has the ID of each image after its last pull; it is for the log only. It is emptied when it has maxPulled.
	pulled map[string]string
	// limit is Config.QPS. Nil: there is none. limited is set while a timer runs until it allows the next pull.
	limit   *rate.Limiter
	limited bool
	// polling is set while the goroutine runs that reads how far the pulls are.
	polling bool
}

// pull is one pull of an image, for all pods that need it with the same credentials and the same sandbox properties.
type pull struct {
	key string
	ref reference
	// pod is the first pod that requested it, and sandbox its sandbox config; nil: none.
	pod         *v1.Pod
	sandbox     *runtimeapi.PodSandboxConfig
	credentials []imageaccess.Login
	// number and turn are those of the first request.
	number, turn uint64
	asks         []*ask
	// started is when the runtime was called. Zero: not yet. progress is how far it is since then. Nil: it isn't known.
	started  time.Time
	progress *pullprogress.Progress
	ctx      context.Context //nolint:containedctx // It is the pull's life.
	cancel   context.CancelFunc
}

// enqueue looks up the credentials of a request, and adds it to a pull or creates one.
func (p *Puller) enqueue(a *ask) {
	logins := p.cfg.Credentials.Lookup(a.ctx, a.pod, a.ref.repository)
	if p.add(a, pullKey(a.pod, a.ref, distinct(logins)), logins) {
		p.wake(a.pod.UID, p.cfg.Done)
	}
}

// add adds the request to the pull with the key, or creates one. It reports whether the request was shown as one that
// waits, and the pull has started before.
func (p *Puller) add(a *ask, key string, logins []imageaccess.Login) (waited bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a.logins = logins
	if a.ctx.Err() != nil {
		return false
	}
	w := p.pulls[key]
	if w == nil {
		w = p.shareable(a, distinct(logins))
	}
	if w == nil {
		w = &pull{key: key, ref: a.ref, pod: a.pod, sandbox: a.sandbox, credentials: distinct(logins), number: a.number, turn: a.turn}
		w.ctx, w.cancel = context.WithCancel(p.ctx)
		p.pulls[key] = w
		// Its credentials may have taken longer than those of later requests.
		at, _ := slices.BinarySearchFunc(p.waiting, w, func(a, b *pull) int {
			return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.number, b.number))
		})
		p.waiting = slices.Insert(p.waiting, at, w)
	}
	w.asks = append(w.asks, a)
	a.pull = w
	p.startNext()
	return a.shown && !w.started.IsZero()
}

// pullKey is equal for requests that may share a pull. It doesn't show the credentials. The pod's namespace,
// RuntimeClass or annotations may determine how a runtime pulls an image, and whether it may.
func pullKey(pod *v1.Pod, ref reference, credentials []imageaccess.Login) string {
	hash := sha256.New()
	fmt.Fprintf(hash, "%q %q\n", pod.Namespace, ptr.Deref(pod.Spec.RuntimeClassName, ""))
	for _, name := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if !podmeta.SetByAgents(name) {
			fmt.Fprintf(hash, "%q %q\n", name, pod.Annotations[name])
		}
	}
	for _, c := range credentials {
		fmt.Fprintf(hash, "%q %q\n", c.Username, c.Password)
	}
	return fmt.Sprintf("%s %x", ref.name, hash.Sum(nil))
}

// distinct returns the logins without those that have the name and password of an earlier one.
func distinct(logins []imageaccess.Login) []imageaccess.Login {
	var out []imageaccess.Login
	for _, l := range logins {
		if !slices.ContainsFunc(out, func(other imageaccess.Login) bool { return sameLogin(l, other) }) {
			out = append(out, l)
		}
	}
	return out
}

func sameLogin(a, b imageaccess.Login) bool {
	return a.Username == b.Username && a.Password == b.Password
}

// startNext starts the pulls that may run now. The caller holds the lock.
func (p *Puller) startNext() {
	for len(p.waiting) > 0 && (p.cfg.MaxParallel <= 0 || p.begun < p.cfg.MaxParallel) && p.ctx.Err() == nil && p.due() {
		w := p.waiting[0]
		p.waiting = p.waiting[1:]
		p.begun++
		p.turn = max(p.turn, w.turn)
		p.running.Go(func() { p.run(w) })
	}
}

// run pulls, and answers the requests.
func (p *Puller) run(w *pull) {
	defer w.cancel()
	done, err := p.fetch(w)
	p.mu.Lock()
	if p.pulls[w.key] == w {
		delete(p.pulls, w.key)
	}
	asks := slices.Clone(w.asks)
	p.mu.Unlock()
	p.settle(w, done, asks)
	if err == nil {
		p.measure(done.image, asks)
	}
	for _, a := range asks {
		p.answer(a, w.started, done.image, err)
	}
	// The next pull starts when this one is no longer shown, so that no more than MaxParallel are.
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun--
	p.startNext()
}

// measure records how long a pull took, from the first request that is answered.
func (p *Puller) measure(image *runtimeapi.Image, asks []*ask) {
	now := p.cfg.Clock.Now()
	first := now
	for _, a := range asks {
		if a.asked.Before(first) {
			first = a.asked
		}
		if a.request == nil {
			p.cfg.Pulled(a.pod.UID, a.asked, now)
		}
	}
	p.durations.WithLabelValues(kubeletmetrics.SizeLabel(image.GetSize())).Observe(now.Sub(first).Seconds())
}

// fetch makes the runtime pull the image, and returns the image in the runtime after that.
func (p *Puller) fetch(w *pull) (fetched, error) {
	for _, uid := range p.begin(w) {
		p.wake(uid, p.cfg.Done)
	}
	// With the policy Always an image is pulled for each start; an image that has not changed is not logged again.
	before, again := p.pulledBefore(w.ref)
	level := slog.LevelInfo
	if again {
		level = slog.LevelDebug
	}
	p.log.Log(w.ctx, level, "pulling image", "image", w.ref.given)
	done, err := p.intend(w)
	if err == nil {
		err = p.try(w, &done)
	}
	if err != nil {
		p.setPulled(w.ref, "")
		return done, err
	}
	took := p.cfg.Clock.Since(w.started)
	done.image, err = p.present(w.ctx, w.pod, done.ref)
	switch {
	case err != nil:
		err = fmt.Errorf("look for the pulled image: %w", err)
	case done.image == nil:
		err = errors.New("the runtime pulled the image but doesn't have it")
	}
	p.setPulled(w.ref, done.image.GetId())
	if again && before != done.image.GetId() {
		level = slog.LevelInfo
	}
	p.log.Log(w.ctx, level, "pulled image", "image", w.ref.given, "took", took)
	return done, err
}

// maxPulled is how many images are kept for the log.
const maxPulled = 1000

func (p *Puller) pulledBefore(ref reference) (id string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, ok = p.pulled[ref.name]
	return id, ok
}

// setPulled records the image's ID now. Empty: its pull failed, and the next success is logged.
func (p *Puller) setPulled(ref reference, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id == "" {
		delete(p.pulled, ref.name)
		return
	}
	if len(p.pulled) >= maxPulled {
		clear(p.pulled)
	}
	p.pulled[ref.name] = id
}

// begin records the call to the runtime, and returns the pods whose wait for it was shown: they show the pull now.
func (p *Puller) begin(w *pull) (waited []types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.started = p.cfg.Clock.Now()
	p.startPolling()
	for _, a := range w.asks {
		if a.shown && w.ctx.Err() == nil {
			waited = append(waited, a.pod.UID)
		}
	}
	return waited
}

// leave removes a request from its pull, and cancels the pull if no request is left. The caller holds the lock.
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

// imageSpec returns an image's spec for the runtime, with the annotations of the pod. As with the kubelet, only a
// container's spec and a mount have the pod's own name of the image too.
func imageSpec(pod *v1.Pod, name string) *runtimeapi.ImageSpec {
	return &runtimeapi.ImageSpec{Image: name, Annotations: maps.Clone(pod.Annotations)}
}
