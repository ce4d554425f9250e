package image

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
)

// fetched is the result of a pull.
type fetched struct {
	// intent is its record on the disk. Nil: the runtime wasn't called. before is the ID of the image that had the name.
	intent Intent
	before string
	// login is the one that the registry accepted; nil: none was needed.
	login *imageaccess.Login
	// pulled is set if the runtime has pulled the image, refused if it has definitely not.
	pulled, refused bool
	// ref is the runtime's ID or digest of the pulled image, and image what the runtime has by it. The name may be that of
	// another image by now. Nil: it isn't known.
	ref   string
	image *runtimeapi.Image
}

// intend records the pull before it begins.
func (p *Puller) intend(w *pull) (fetched, error) {
	if w.ref.isID {
		return fetched{}, fmt.Errorf("%s is an ID, and registries have no images by ID", w.ref.given)
	}
	before, err := p.present(w.ctx, w.pod, w.ref.name)
	if err != nil {
		return fetched{}, fmt.Errorf("look for the image before its pull: %w", err)
	}
	intent, err := p.cfg.Records.Intend(w.ref.given, before.GetId())
	if err != nil {
		return fetched{}, fmt.Errorf("Failed to record image pull intent for container image %q: %w", w.ref.given, err)
	}
	return fetched{intent: intent, before: before.GetId()}, nil
}

// try pulls with one of the credentials after the other.
func (p *Puller) try(w *pull, done *fetched) error {
	logins := []*imageaccess.Login{nil}
	if len(w.credentials) > 0 {
		logins = nil
		for i := range w.credentials {
			logins = append(logins, &w.credentials[i])
		}
	}
	done.refused = true
	var errs []error
	for _, login := range logins {
		var auth *runtimeapi.AuthConfig
		if login != nil {
			auth = &runtimeapi.AuthConfig{Username: login.Username, Password: login.Password}
		}
		ref, err := p.cfg.Images.PullImage(w.ctx, imageSpec(w.pod, w.ref.name), auth, w.sandbox)
		if err == nil {
			done.pulled, done.refused, done.login, done.ref = true, false, login, cmp.Or(ref, w.ref.name)
			return nil
		}
		errs = append(errs, err)
		done.refused = done.refused && !ambiguous(err)
		if w.ctx.Err() != nil {
			done.refused = false
			break
		}
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return utilerrors.NewAggregate(errs)
}

// ambiguous reports whether the call may have succeeded, or may still succeed: the error isn't the runtime's answer.
func ambiguous(err error) bool {
	return slices.Contains([]codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.Unavailable}, status.Code(err))
}

// settle records the result of a pull. Each pod that waited for it may use the image by the origin of its own login,
// and not by that of the pod whose request began the pull.
func (p *Puller) settle(w *pull, done fetched, asks []*ask) {
	var err error
	switch {
	case done.intent == nil:
		return
	case done.pulled && done.image != nil:
		err = done.intent.Pulled(done.image, done.origins(asks))
	case done.refused && !p.arrived(w, done.before):
		err = done.intent.Failed()
	default:
		done.intent.Interrupted()
	}
	if err != nil {
		p.log.Warn("can't record an image pull; the image must be pulled again when it is used next", "image", w.ref.given, "error", err)
	}
}

// arrived reports whether the name has, or may have, another image than before the pull: a runtime may answer with an
// error after it has stored the image.
func (p *Puller) arrived(w *pull, before string) bool {
	now, err := p.present(w.ctx, w.pod, w.ref.name)
	return err != nil || now != nil && now.GetId() != before
}

// origins returns each pod's login that the registry accepted. If it required none, all pods may use the image. If no
// pod waits any more, it isn't known which ones may.
func (f *fetched) origins(asks []*ask) []imageaccess.Login {
	if f.login == nil {
		return []imageaccess.Login{{}}
	}
	var logins []imageaccess.Login
	for _, a := range asks {
		if i := slices.IndexFunc(a.logins, func(l imageaccess.Login) bool { return sameLogin(l, *f.login) }); i >= 0 {
			logins = append(logins, a.logins[i])
		}
	}
	return logins
}
