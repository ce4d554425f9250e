package image

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/events"
)

// freshFor is how long after the last of a pod's pulls its images needn't be pulled again under the policy Always: as long as it may
// take to start the containers that the pulls were for.
const freshFor = time.Minute

// errorShown is how long at most a failed pull is shown as such before it is shown as put off.
const errorShown = 5 * time.Second

// podImages is what is known of the images of one pod.
type podImages struct {
	// asks are the images that the pod waits for, by name; results is how the last pull of each ended.
	asks    map[string]*ask
	results map[string]*result
	// settled is when the last of the asks ended.
	settled time.Time
	// told is when it was last said of a container that its image was there already.
	told map[string]time.Time
}

// ask is a pod's wish for an image that has to be pulled.
type ask struct {
	pod *v1.Pod
	ref reference
	// containers are those that wait.
	containers []*v1.Container
	asked      time.Time
	// turn orders the asks: earlier ones are lower.
	turn uint64
	// version is that of the pull secrets that are used.
	version string
	// ctx ends when the pod is forgotten.
	ctx    context.Context //nolint:containedctx // It is the ask's life.
	cancel context.CancelFunc
	// pull is the pull that will answer. Nil while credentials are looked for.
	pull *pull
}

// result is how a pull ended.
type result struct {
	at time.Time
	// err is nil if the image was pulled; reason and message are what is shown of it.
	err             error
	reason, message string
	// told is set once err has been returned.
	told bool
	// pause is how long not to try again, with pull secrets of this version.
	pause   time.Duration
	version string
}

func (p *Puller) podImages(pod *v1.Pod) *podImages {
	images := p.pods[pod.UID]
	if images == nil {
		images = &podImages{asks: map[string]*ask{}, results: map[string]*result{}, told: map[string]time.Time{}}
		p.pods[pod.UID] = images
	}
	return images
}

// fresh tells whether the image has just been pulled for this pod. While the pod waits for others, it stays so.
func (i *podImages) fresh(image string, now time.Time) bool {
	r := i.results[image]
	return r != nil && r.err == nil && (len(i.asks) > 0 || now.Sub(i.settled) < freshFor)
}

// join has the container wait too, if its pod is waiting for the image already. Nil: it isn't.
func (p *Puller) join(pod *v1.Pod, c *v1.Container, ref reference) *Wait {
	p.mu.Lock()
	defer p.mu.Unlock()
	if images := p.pods[pod.UID]; images != nil && images.asks[ref.name] != nil {
		return p.await(images.asks[ref.name], c)
	}
	return nil
}

// await adds a container to those that wait. The caller holds the lock.
func (p *Puller) await(a *ask, c *v1.Container) *Wait {
	if !slices.ContainsFunc(a.containers, func(other *v1.Container) bool { return other.Name == c.Name }) {
		a.containers = append(a.containers, c)
		p.record(a.pod, c, events.Normal, events.PullingImage, "Pulling image %q", c.Image)
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

func (p *Puller) justPulled(pod *v1.Pod, ref reference) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	images := p.pods[pod.UID]
	return images != nil && images.fresh(ref.name, p.cfg.Clock.Now())
}

// tellPresent records that the image was there without a pull. A start may take several calls: it is said once for all of them.
func (p *Puller) tellPresent(pod *v1.Pod, c *v1.Container, ref reference) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, images := p.cfg.Clock.Now(), p.podImages(pod)
	told, ok := images.told[c.Name]
	if images.fresh(ref.name, now) || ok && now.Sub(told) < freshFor {
		return
	}
	images.told[c.Name] = now
	p.record(pod, c, events.Normal, events.PulledImage, "Container image %q already present on machine", c.Image)
}

// pull asks for the image, unless the last pull has just failed.
func (p *Puller) pull(pod *v1.Pod, c *v1.Container, ref reference) (*Wait, error) {
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
	p.asks++
	a := &ask{pod: pod, ref: ref, asked: p.cfg.Clock.Now(), turn: p.asks, version: version}
	a.ctx, a.cancel = context.WithCancel(p.ctx)
	images.asks[ref.name] = a
	p.running.Go(func() { p.enqueue(a) })
	return p.await(a, c), nil
}

// backoff is what is left to be said of a pull that failed. Nil: nothing, the image may be pulled. The caller holds the lock.
func (p *Puller) backoff(last *result, version string, pod *v1.Pod, c *v1.Container) (*Wait, error) {
	if last == nil || last.err == nil || last.version != version {
		return nil, nil
	}
	left := last.pause - p.cfg.Clock.Since(last.at)
	if left <= 0 {
		return nil, nil
	}
	if !last.told {
		last.told = true
		return &Wait{Reason: last.reason, Message: last.message, RetryAfter: min(left/2, errorShown)}, last.err
	}
	message := fmt.Sprintf("Back-off pulling image %q", c.Image)
	p.record(pod, c, events.Normal, events.BackOffPull, "%s", message)
	return &Wait{Reason: ImagePullBackOff, Message: fmt.Sprintf("%s: %s: %s", message, last.reason, last.message), RetryAfter: left}, nil
}

// answer ends an ask. It is for naught if the pod was forgotten meanwhile.
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
		r.err = fmt.Errorf("pull image %q: %w", a.ref.given, err)
		r.pause = p.pause(images.results[a.ref.name], r)
	}
	delete(images.asks, a.ref.name)
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
	p.cfg.Done(a.pod.UID)
}

// pause is how long not to pull after a failure: twice as long as after the one before it, and the least again after a long time without
// one or with other pull secrets.
func (p *Puller) pause(last, now *result) time.Duration {
	if last == nil || last.err == nil || last.version != now.version || now.at.Sub(last.at) > 2*p.cfg.BackoffMax {
		return p.cfg.BackoffBase
	}
	return min(2*last.pause, p.cfg.BackoffMax)
}
