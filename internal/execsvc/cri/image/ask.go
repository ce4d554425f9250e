package image

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
)

// freshFor is how long after the last of a pod's pulls the containers that waited for one may start from it under the
// policy Always: long enough to start them. Each starts once from it.
const freshFor = time.Minute

// errorShown is how long at most a failed pull is shown as failed before it is shown as in backoff.
const errorShown = 5 * time.Second

// podImages is the state of the images of one pod.
type podImages struct {
	// asks are the requests of the pod that wait, by name; results has the result of the last pull of each image.
	asks    map[string]*ask
	results map[string]*result
	// held are the asks that aren't under way yet, in order, because maxAsks others are.
	held []*ask
	// dropped is set once the pod is dropped.
	dropped bool
	// turn is that of the last ask that is or was under way.
	turn uint64
	// settled is when the last of the asks ended.
	settled time.Time
	// recorded is when the event "already present" was last recorded for a container's use of an image.
	recorded map[use]time.Time
	// known has the images that the runtime had, by name, while containers wait for others.
	known map[string]known
	// lookups are the lookups of the pod's service account for images that the node has, by name.
	lookups map[string]*lookup
	// lacking is since when pull secrets are awaited. Zero: none are.
	lacking time.Time
}

// use is the use of an image by a container.
type use struct{ container, image string }

// ask is a pod's request for an image that must be pulled.
type ask struct {
	pod *v1.Pod
	ref reference
	// sandbox is the pod's sandbox config for the runtime. It may be nil.
	sandbox *runtimeapi.PodSandboxConfig
	// containers are the waiting containers.
	containers []*v1.Container
	asked      time.Time
	// held is set until the request is under way.
	held bool
	// turn and number are the request's place, from when it is under way. Each turn has one request of every pod that
	// has any; so those of one pod never stand before all of another's. In a turn they are served by number.
	turn, number uint64
	// version is that of the pull secrets in use, logins are all that were found.
	version string
	logins  []imageaccess.Login
	// ctx ends when the pod is dropped. A held request has none.
	ctx    context.Context //nolint:containedctx // It is the ask's life.
	cancel context.CancelFunc
	// shown is set if Pulls has returned the request as one that waits.
	shown bool
	// pull is the pull that will answer. Nil while credentials are looked up.
	pull *pull
	// request is the request that it is of. Nil: it is of a pod.
	request *Request
}

// result is the result of a pull.
type result struct {
	at time.Time
	// id is the ID of the pulled image. owed are the containers, by name, that waited for the pull and haven't been created
	// from the image yet.
	id   string
	owed map[string]bool
	// err is nil if the image was pulled; reason and message are those of the container's status.
	err             error
	reason, message string
	// returned is set once err has been returned.
	returned bool
	// pause is the backoff, with pull secrets of this version.
	pause   time.Duration
	version string
}

func (p *Puller) podImages(pod *v1.Pod) *podImages {
	images := p.pods[pod.UID]
	if images == nil {
		images = &podImages{
			asks: map[string]*ask{}, results: map[string]*result{}, recorded: map[use]time.Time{}, known: map[string]known{},
			lookups: map[string]*lookup{},
		}
		p.pods[pod.UID] = images
	}
	return images
}

// fresh reports whether the image was just pulled for this pod. While the pod waits for other images, it stays fresh.
func (i *podImages) fresh(image string, now time.Time) bool {
	r := i.results[image]
	return r != nil && r.err == nil && i.waits(now)
}

// waits reports whether the pod waits for images, or did so just now.
func (i *podImages) waits(now time.Time) bool {
	return len(i.asks) > 0 || now.Sub(i.settled) < freshFor
}

// owes reports whether the image was just pulled for a container that hasn't been created from it yet.
func (i *podImages) owes(container, image string, now time.Time) bool {
	return i.fresh(image, now) && i.results[image].owed[container]
}

// join adds the container to its pod's request for the image. Nil: there is no such request.
func (p *Puller) join(pod *v1.Pod, c *v1.Container, ref reference) *Wait {
	p.mu.Lock()
	defer p.mu.Unlock()
	if images := p.pods[pod.UID]; images != nil && images.asks[ref.name] != nil {
		return p.await(images.asks[ref.name], c)
	}
	return nil
}

// await adds a container to a request. The caller holds the lock.
func (p *Puller) await(a *ask, c *v1.Container) *Wait {
	if !slices.ContainsFunc(a.containers, func(other *v1.Container) bool { return other.Name == c.Name }) {
		a.containers = append(a.containers, c)
		if !a.held {
			p.record(a.pod, c, events.Normal, events.PullingImage, "Pulling image %q", c.Image)
		}
	}
	wait := &Wait{Reason: ContainerCreating, Pulling: true}
	if started := a.started(); !started.IsZero() {
		wait.Message = fmt.Sprintf("pulling image %q since %s", c.Image, started.UTC().Format(time.RFC3339))
	} else {
		wait.Message = fmt.Sprintf("waiting to pull image %q since %s", c.Image, a.asked.UTC().Format(time.RFC3339))
	}
	return wait
}

func (a *ask) started() time.Time {
	if a.pull == nil {
		return time.Time{}
	}
	return a.pull.started
}

// justPulled returns the ID of the image that was just pulled for the container; empty: none was.
func (p *Puller) justPulled(pod *v1.Pod, c *v1.Container, ref reference) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	images := p.pods[pod.UID]
	if images == nil || !images.owes(c.Name, ref.name, p.cfg.Clock.Now()) {
		return ""
	}
	return images.results[ref.name].id
}

// Used records that the container is being created from the images that Ensure returned: under the policy Always the
// next one of its name pulls them again.
func (p *Puller) Used(uid types.UID, container string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if images := p.pods[uid]; images != nil {
		for _, r := range images.results {
			delete(r.owed, container)
		}
		clear(images.known)
		images.forgetLookups()
	}
}

// recordPresent records the event that the image was there without a pull. A start may take several calls: the event is
// recorded once for all of them.
func (p *Puller) recordPresent(pod *v1.Pod, c *v1.Container, ref reference) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, images := p.cfg.Clock.Now(), p.podImages(pod)
	key := use{c.Name, ref.name}
	at, ok := images.recorded[key]
	if images.fresh(ref.name, now) || ok && now.Sub(at) < freshFor {
		return
	}
	images.recorded[key] = now
	p.record(pod, c, events.Normal, events.PulledImage, "Container image %q already present on machine and can be accessed by the pod", c.Image)
}

// pull requests the image, unless its last pull has just failed.
func (p *Puller) pull(pod *v1.Pod, c *v1.Container, ref reference, sandbox *runtimeapi.PodSandboxConfig) (*Wait, error) {
	version := p.cfg.Credentials.Version(pod)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.ctx.Err(); err != nil {
		err = fmt.Errorf("pull image %q: %w", ref.given, err)
		return &Wait{Reason: ErrImagePull, Message: err.Error()}, err
	}
	images := p.podImages(pod)
	if a := images.asks[ref.name]; a != nil {
		return p.await(a, c), nil
	}
	if wait, err := p.backoff(images.results[ref.name], version, pod, c); wait != nil {
		return wait, err
	}
	a := &ask{pod: pod, ref: ref, sandbox: sandbox, asked: p.cfg.Clock.Now(), held: true, version: version}
	images.asks[ref.name] = a
	images.held = append(images.held, a)
	wait := p.await(a, c)
	p.proceed(images)
	return wait, nil
}

// backoff returns the Wait of a pull that failed. Nil: the image may be pulled. The caller holds the lock.
func (p *Puller) backoff(last *result, version string, pod *v1.Pod, c *v1.Container) (*Wait, error) {
	if last == nil || last.err == nil || last.version != version {
		return nil, nil
	}
	now := p.cfg.Clock.Now()
	if last.at.After(now) {
		last.at = now
	}
	left := last.pause - now.Sub(last.at)
	if left <= 0 {
		return nil, nil
	}
	if !last.returned {
		last.returned = true
		return &Wait{Reason: last.reason, Message: last.message, RetryAfter: min(left/2, errorShown)}, last.err
	}
	message := fmt.Sprintf("Back-off pulling image %q", c.Image)
	p.record(pod, c, events.Normal, events.BackOffPull, "%s", message)
	return &Wait{Reason: ImagePullBackOff, Message: fmt.Sprintf("%s: %s: %s", message, last.reason, last.message), RetryAfter: left}, nil
}

// answer ends a request. It has no effect if the pod was dropped meanwhile.
func (p *Puller) answer(a *ask, began time.Time, image *runtimeapi.Image, err error) {
	defer a.cancel()
	now := p.cfg.Clock.Now()
	r := &result{at: now, err: err, version: a.version}
	p.mu.Lock()
	images := p.pods[a.pod.UID]
	if p.ctx.Err() != nil || images == nil || images.asks[a.ref.name] != a {
		p.mu.Unlock()
		return
	}
	if err != nil {
		r.reason, r.message = explain(a.ref.given, err)
		r.message = clip(r.message, maxMessage)
		r.err = clipError(fmt.Errorf("pull image %q: %w", a.ref.given, err))
		r.pause = p.pause(images.results[a.ref.name], r)
	} else {
		r.id = image.GetId()
		images.learn(a.ref, image, now)
	}
	delete(images.asks, a.ref.name)
	r.owed = map[string]bool{}
	for _, c := range a.containers {
		r.owed[c.Name] = true
	}
	images.results[a.ref.name], images.settled = r, now
	p.mu.Unlock()
	for _, c := range a.containers {
		if err != nil {
			p.record(a.pod, c, events.Warning, events.FailedToPull, "Failed to pull image %q: %v", c.Image, err)
			continue
		}
		p.record(a.pod, c, events.Normal, events.PulledImage, "Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.",
			c.Image, now.Sub(began).Truncate(time.Millisecond), now.Sub(a.asked).Truncate(time.Millisecond), image.GetSize())
	}
	if a.request != nil {
		a.request.image, a.request.err = Pulled{ID: r.id, Bytes: image.GetSize()}, r.err
		close(a.request.ended)
		return
	}
	p.mu.Lock()
	p.proceed(images)
	p.mu.Unlock()
	p.cfg.Done(a.pod.UID)
}

// pause returns the backoff after a failure: twice the previous one, and the least again after a long time without a
// failure or with other pull secrets.
func (p *Puller) pause(last, now *result) time.Duration {
	if last == nil || last.err == nil || last.version != now.version || now.at.Sub(last.at) > 2*p.cfg.BackoffMax {
		return p.cfg.BackoffBase
	}
	return min(2*last.pause, p.cfg.BackoffMax)
}
