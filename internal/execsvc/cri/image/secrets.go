package image

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/events"
)

// secretsPatience is how long a pod waits for its pull secrets, which arrive on a stream of their own. After that its
// images are pulled without them. The kubelet waits for a second for each.
const secretsPatience = 5 * time.Second

// ReportSecrets records an event if pull secrets of the pod can't be retrieved. As with the kubelet, that is for each
// sync of the pod, also of one that needs no image.
func (p *Puller) ReportSecrets(pod *v1.Pod) {
	if names, left := p.lacking(pod); len(names) > 0 && left <= 0 {
		p.cfg.Events.Record(pod, "", events.Warning, events.FailedPullSecret,
			fmt.Sprintf("Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", strings.Join(names, ", ")))
	}
}

// awaitSecrets returns the Wait for pull secrets that may still arrive. Nil: there are none, or they take too long.
func (p *Puller) awaitSecrets(pod *v1.Pod) *Wait {
	names, left := p.lacking(pod)
	if left <= 0 {
		return nil
	}
	return &Wait{
		Reason: ContainerCreating, Message: fmt.Sprintf("waiting for image pull secrets (%s)", strings.Join(names, ", ")), RetryAfter: left, Pulling: true,
	}
}

// lacking returns the pull secrets that can't be retrieved, and how long the pod still waits for them.
func (p *Puller) lacking(pod *v1.Pod) (names []string, left time.Duration) {
	if len(pod.Spec.ImagePullSecrets) == 0 {
		return nil, 0
	}
	names, awaited := p.cfg.Credentials.Lacking(pod)
	p.mu.Lock()
	defer p.mu.Unlock()
	images, now := p.podImages(pod), p.cfg.Clock.Now()
	if !awaited {
		images.lacking = time.Time{}
		return names, 0
	}
	if images.lacking.IsZero() || images.lacking.After(now) {
		images.lacking = now
	}
	return names, secretsPatience - now.Sub(images.lacking)
}
