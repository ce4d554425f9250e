package image

import (
	"cmp"
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// known is an image that the runtime had and the pod was allowed to use.
type known struct {
	// image has only what a container needs of it. An image can have thousands of tags.
	image *runtimeapi.Image
	at    time.Time
}

// look returns the image in the runtime if it is there and the pod may use it. A pod that waits for many images requests
// all of them again whenever one was pulled: what the runtime had a moment ago isn't looked for again until a container
// is created. owed is the ID of the image that was just pulled for the container, with the pod's credentials; empty: none
// was. The name may be that of another image by now.
func (p *Puller) look(ctx context.Context, pod *v1.Pod, ref reference, owed string) (*runtimeapi.Image, *Wait, error) {
	if image := p.lookUp(pod, ref); image != nil {
		return image, nil, nil
	}
	image, err := p.present(ctx, pod, cmp.Or(owed, ref.name))
	if err != nil || image == nil {
		return nil, nil, err
	}
	if owed == "" {
		if allowed, wait := p.access(pod, ref, image); !allowed {
			return nil, wait, nil
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.podImages(pod).learn(ref, image, p.cfg.Clock.Now())
	return image, nil, nil
}

func (p *Puller) lookUp(pod *v1.Pod, ref reference) *runtimeapi.Image {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, images := p.cfg.Clock.Now(), p.podImages(pod)
	k, ok := images.known[ref.name]
	if age := now.Sub(k.at); !ok || !images.waits(now) || age < 0 || age >= freshFor {
		return nil
	}
	return k.image
}

// learn records that the runtime has the image and the pod may use it.
func (i *podImages) learn(ref reference, image *runtimeapi.Image, now time.Time) {
	i.known[ref.name] = known{&runtimeapi.Image{Id: image.GetId(), Uid: image.GetUid(), Username: image.GetUsername()}, now}
}
