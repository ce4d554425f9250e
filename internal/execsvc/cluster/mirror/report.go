package mirror

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// heard records the result of a request. It logs once that the API server doesn't answer, and once that it does
// again. Then all pods are queued.
func (k *Keeper) heard(ctx context.Context, err error) {
	switch down := unanswered(err); {
	case down == k.down, ctx.Err() != nil:
	case down:
		k.down = true
		k.log.Warn("the API server doesn't answer; static pods run without new mirror pods until it does", "error", err)
	default:
		k.down = false
		k.log.Info("the API server answers again; mirror pods are created")
		k.look(true)
	}
}

// report logs why a static pod has no mirror pod, once for each reason, and once that it has one.
func (k *Keeper) report(name types.NamespacedName, err error) {
	e := k.entries[name]
	reason := reasonOf(err)
	if e == nil || e.trouble == reason || errors.Is(err, errNotYet) || unanswered(err) {
		return
	}
	e.trouble = reason
	log := k.log.With("pod", name.String())
	switch {
	case err == nil:
		log.Info("the static pod's mirror pod is correct again")
	case errors.Is(err, errReferences):
		log.Warn("the static pod runs without a mirror pod, so the API server doesn't show it", "error", err)
	default:
		log.Warn("the static pod's mirror pod can't be updated; the pod runs nevertheless; retrying", "error", err)
	}
}

// missed logs, once, that the stream lacks an existing mirror pod.
func (k *Keeper) missed(e *entry, mirror *v1.Pod) {
	if mirror.UID != e.unstreamed || k.blind {
		return
	}
	k.blind = true
	k.log.Warn("podconfigd's stream lacks mirror pods that exist at the API server, so statuses of static pods can't be posted: "+
		"it needs the API server as a source (--kubeconfig), for this node",
		"pod", podmeta.LogName(mirror), "uid", mirror.UID, "node", k.cfg.Node)
}

// reasonOf returns the part of an error by which it is logged once.
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

// unanswered reports whether the error says nothing about the request itself: the API server is down, can't
// authenticate the caller, or can't reach a backend that every answer needs.
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
