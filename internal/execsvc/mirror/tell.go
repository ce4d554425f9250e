package mirror

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// heard notes how a request went: it logs once that the API server doesn't answer, and once that it does again. Then all pods are looked at.
func (k *Keeper) heard(ctx context.Context, err error) {
	switch down := unanswered(err); {
	case down == k.down, ctx.Err() != nil:
	case down:
		k.down = true
		k.log.Warn("the API server doesn't answer; static pods run without new mirror pods until it does", "error", err)
	default:
		k.down = false
		k.log.Info("the API server answers again, and is given mirror pods")
		k.look(true)
	}
}

// tell logs why a static pod has no mirror pod, once for each reason, and once that it has.
func (k *Keeper) tell(name types.NamespacedName, err error) {
	e := k.entries[name]
	reason := reasonOf(err)
	if e == nil || e.trouble == reason || errors.Is(err, errNotYet) || unanswered(err) {
		return
	}
	e.trouble = reason
	log := k.log.With("pod", name.String())
	switch {
	case err == nil:
		log.Info("the static pod's mirror pod is as it should be again")
	case errors.Is(err, errReferences):
		log.Warn("the static pod runs, and can have no mirror pod: the API server isn't told of it", "error", err)
	default:
		log.Warn("the static pod's mirror pod isn't as it should be, and the pod runs all the same; trying again", "error", err)
	}
}

// missed logs, once, that the stream hasn't told of a mirror pod that is there.
func (k *Keeper) missed(e *entry, mirror *v1.Pod) {
	if mirror.UID != e.untold || k.blind {
		return
	}
	k.blind = true
	k.log.Warn("podconfigd doesn't tell of mirror pods that are at the API server, so nobody can tell the API server how static pods are: "+
		"it needs the API server as a source (--kubeconfig), for this node",
		"pod", mirror.Namespace+"/"+mirror.Name, "uid", mirror.UID, "node", k.cfg.Node)
}

// reasonOf is what errors have in common of which it is enough to tell one.
func reasonOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errForeign):
		return errForeign.Error()
	case errors.Is(err, errReferences):
		return err.Error()
	}
	return "refused: " + string(apierrors.ReasonForError(err))
}

// unanswered tells whether the API server said nothing of the request itself: it isn't there, doesn't know who asks, or can't reach what it
// needs for any answer.
func unanswered(err error) bool {
	var status apierrors.APIStatus
	switch {
	case err == nil, errors.Is(err, errForeign), errors.Is(err, errReferences), errors.Is(err, errNotYet):
		return false
	case !errors.As(err, &status):
		return true
	}
	return apierrors.IsUnauthorized(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}
