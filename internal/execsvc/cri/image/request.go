package image

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
)

// maxRequests is how many images may be requested without a pod at a time.
const maxRequests = 16

// Errors of Puller.Request.
var (
	// ErrTooManyRequests is returned while maxRequests are under way.
	ErrTooManyRequests = fmt.Errorf("%d images are being pulled by request; wait for one of them", maxRequests)
	// ErrClosed is the error of a request when the Puller closes.
	ErrClosed = errors.New("no images are pulled any more: podexecd is about to end")
)

// Request is a caller's request for an image, without a pod. Close must be called.
type Request struct {
	puller *Puller
	ask    *ask
	// changed has a value if Pull may return something else than before.
	changed chan struct{}
	// ended is closed at the end of the pull. image is the pulled one, or err is set.
	ended chan struct{}
	image Pulled
	err   error
}

// Pulled is a pulled image.
type Pulled struct {
	// ID is the image's ID in the runtime.
	ID string
	// Bytes is its size.
	Bytes uint64
}

// Request requests an image, as for a pod without pull secrets: the node's credentials and credential providers apply, the
// limits of pulls, and the queue. It is pulled whether or not the node has it. If it is being pulled for a pod with the same
// credentials, the pull is shared.
func (p *Puller) Request(image string) (*Request, error) {
	ref, err := parseReference(image)
	if err != nil {
		return nil, err
	}
	if ref.isID {
		return nil, fmt.Errorf("couldn't parse image name %q: %w: it is an ID, and registries have no images by ID", clip(image, maxReference), ErrReference)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ctx.Err() != nil:
		return nil, ErrClosed
	case len(p.requests) == maxRequests:
		return nil, ErrTooManyRequests
	}
	p.requested++
	// No pod has such a UID: a slash isn't allowed in it.
	uid := types.UID(fmt.Sprintf("request/%d", p.requested))
	r := &Request{puller: p, changed: make(chan struct{}, 1), ended: make(chan struct{})}
	r.ask = &ask{pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}, ref: ref, asked: p.cfg.Clock.Now(), held: true, request: r}
	p.requests[uid] = r
	images := p.podImages(r.ask.pod)
	images.asks[ref.name] = r.ask
	images.held = append(images.held, r.ask)
	p.proceed(images)
	return r, nil
}

// Changed receives a value when Pull may return something else than before.
func (r *Request) Changed() <-chan struct{} { return r.changed }

// Ended is closed when the pull has ended.
func (r *Request) Ended() <-chan struct{} { return r.ended }

// Pull returns the state of the pull.
func (r *Request) Pull() Pull {
	r.puller.mu.Lock()
	defer r.puller.mu.Unlock()
	r.ask.shown = r.ask.shown || r.ask.started().IsZero()
	return r.ask.shownPull()
}

// Result returns the pulled image, or the error of the pull, whose text has 4 KiB at most. It is called after the end.
func (r *Request) Result() (Pulled, error) { return r.image, r.err }

// Close ends the request. The pull is cancelled, unless a pod or another request waits for it.
func (r *Request) Close() {
	uid := r.ask.pod.UID
	r.puller.Drop(uid)
	r.puller.mu.Lock()
	defer r.puller.mu.Unlock()
	delete(r.puller.requests, uid)
}

// wake calls Config.Done for a pod, or reports the change to the request with that UID.
func (p *Puller) wake(uid types.UID, call func(types.UID)) {
	p.mu.Lock()
	r := p.requests[uid]
	p.mu.Unlock()
	if r == nil {
		call(uid)
		return
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// shareable returns the running or queued pull that a request may share, although it was requested for a pod: the same
// image, with the same credentials. The other way round a pod shares no pull that was requested for no pod: its namespace
// may have a policy of the runtime. The caller holds the lock.
func (p *Puller) shareable(a *ask, logins []imageaccess.Login) *pull {
	if a.request == nil {
		return nil
	}
	var first *pull
	for _, w := range p.pulls {
		if w.ref.name == a.ref.name && slices.EqualFunc(w.credentials, logins, sameLogin) && (first == nil || cmp.Less(w.number, first.number)) {
			first = w
		}
	}
	return first
}
