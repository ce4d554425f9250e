package image

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
)

// Records decide whether a pod may use an image that the node has, and record the pulls.
type Records interface {
	// Check decides. It may take as long as a disk.
	Check(imageaccess.Use) imageaccess.Decision
	// Intend is called before a pull. before is the ID of the image that has the name; empty: none.
	Intend(image, before string) (Intent, error)
}

// Intent is the record of a pull under way. One of its methods is called, once.
type Intent interface {
	// Pulled records the image, as the runtime has it now, and the login that each pod has pulled it with.
	Pulled(image *runtimeapi.Image, logins []imageaccess.Login) error
	// Failed records that the node has no image from the pull.
	Failed() error
	// Interrupted records that the outcome isn't known.
	Interrupted()
}

// noRecords are for a Puller without records.
type noRecords struct{}

func (noRecords) Check(imageaccess.Use) imageaccess.Decision {
	return imageaccess.Decision{Access: imageaccess.Allowed}
}
func (noRecords) Intend(string, string) (Intent, error)               { return noRecords{}, nil }
func (noRecords) Pulled(*runtimeapi.Image, []imageaccess.Login) error { return nil }
func (noRecords) Failed() error                                       { return nil }
func (noRecords) Interrupted()                                        {}

// lookup finds out for which service account, if any, a credential provider gives the pod credentials for an image.
type lookup struct {
	began time.Time
	// account is valid once done is set.
	account *imageaccess.Account
	done    bool
	cancel  context.CancelFunc
}

// access reports whether the pod may use an image that the node has. If that depends on a credential provider, wait is
// set until the provider has answered; Config.Done is called then.
func (p *Puller) access(pod *v1.Pod, ref reference, image *runtimeapi.Image) (allowed bool, wait *Wait) {
	use := imageaccess.Use{
		ID: image.GetId(), Repository: ref.repository, Name: ref.full, Given: ref.given,
		Names:   slices.Concat(image.GetRepoTags(), image.GetRepoDigests()),
		Secrets: func() []imageaccess.Login { return p.cfg.Credentials.Secrets(pod, ref.repository) },
	}
	d := p.cfg.Records.Check(use)
	if d.Access == imageaccess.Unknown {
		if use.Account, wait = p.account(pod, ref); wait != nil {
			return false, wait
		}
		use.AccountKnown = true
		d = p.cfg.Records.Check(use)
	}
	return d.Access == imageaccess.Allowed, nil
}

// account returns the service account for which a credential provider gives the pod credentials for the image, as it
// was found since the last start of a container. wait is set while it is looked up.
func (p *Puller) account(pod *v1.Pod, ref reference) (account *imageaccess.Account, wait *Wait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	images, now := p.podImages(pod), p.cfg.Clock.Now()
	l := images.lookups[ref.name]
	if l != nil && l.done {
		if age := now.Sub(l.began); age >= 0 && age < freshFor {
			return l.account, nil
		}
		l = nil
	}
	if l == nil {
		running := 0
		for _, other := range images.lookups {
			if !other.done {
				running++
			}
		}
		if running < maxAsks && p.ctx.Err() == nil {
			l = &lookup{began: now}
			ctx, cancel := context.WithCancel(p.ctx)
			l.cancel = cancel
			images.lookups[ref.name] = l
			p.running.Go(func() { p.lookUpAccount(ctx, l, pod, ref) })
		}
	}
	message := fmt.Sprintf("waiting to verify the credentials for image %q", ref.given)
	if l != nil {
		message = fmt.Sprintf("verifying the credentials for image %q since %s", ref.given, l.began.UTC().Format(time.RFC3339))
	}
	return nil, &Wait{Reason: ContainerCreating, Message: message, Pulling: true}
}

func (p *Puller) lookUpAccount(ctx context.Context, l *lookup, pod *v1.Pod, ref reference) {
	defer l.cancel()
	var account *imageaccess.Account
	for _, login := range p.cfg.Credentials.Lookup(ctx, pod, ref.repository) {
		if login.Account != nil {
			account = login.Account
			break
		}
	}
	ended := ctx.Err() != nil
	p.mu.Lock()
	l.account, l.done = account, true
	p.mu.Unlock()
	if !ended {
		p.cfg.Done(pod.UID)
	}
}

// forgetLookups removes the results of lookups: the next start of a container looks up again. The caller holds the lock.
func (i *podImages) forgetLookups() {
	for name, l := range i.lookups {
		if l.done {
			delete(i.lookups, name)
		}
	}
}
