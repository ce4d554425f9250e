package image

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/events"
)

// maxAsks is how many requests of one pod are under way at most. The kubelet pulls the images of a pod one after the
// other.
const maxAsks = 4

// proceed lets held requests of a pod begin, so that maxAsks are under way: first those that a container waits for. The
// caller holds the lock.
func (p *Puller) proceed(images *podImages) {
	for len(images.held) > 0 && len(images.asks)-len(images.held) < maxAsks && !images.dropped && p.ctx.Err() == nil {
		at := max(slices.IndexFunc(images.held, (*ask).needed), 0)
		a := images.held[at]
		images.held = slices.Delete(images.held, at, at+1)
		p.underWay(images, a)
	}
}

// underWay gives a request its place, and looks up its credentials. The caller holds the lock.
func (p *Puller) underWay(images *podImages, a *ask) {
	p.asks++
	images.turn = max(images.turn, p.turn) + 1
	a.held, a.turn, a.number = false, images.turn, p.asks
	a.ctx, a.cancel = context.WithCancel(p.ctx)
	for _, c := range a.containers {
		p.record(a.pod, c, events.Normal, events.PullingImage, "Pulling image %q", c.Image)
	}
	p.running.Go(func() { p.enqueue(a) })
}

// needed reports whether a container waits for the image. Otherwise it is requested for later.
func (a *ask) needed() bool {
	return slices.ContainsFunc(a.containers, func(c *v1.Container) bool { return c.Name != "" })
}
