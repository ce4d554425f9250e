package csivolume

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podstream/podstream/internal/execsvc/setup/csi"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// outcomeOf returns what the error of a call means for its volume. A status that isn't the driver's may be that of a
// connection which was lost after the driver received the call.
func outcomeOf(err error) storage.Outcome {
	if _, ok := errors.AsType[*csi.NotRegisteredError](err); ok {
		return storage.NotSent
	}
	e, ok := errors.AsType[*csi.Error](err)
	switch {
	case !ok || !e.Answered:
		return storage.Unanswered
	case csi.IsFinal(err):
		return storage.Final
	case e.Code == codes.Aborted:
		return storage.InProgress // The CSI specification's "operation pending for volume".
	default:
		return storage.Uncertain
	}
}

// answered returns the error of a call with its outcome, or nil. prefix is upstream's.
func answered(prefix string, err error) error {
	if err == nil {
		return nil
	}
	out := outcomeOf(err)
	if prefix != "" {
		err = fmt.Errorf("%s%w", prefix, err)
	}
	return &storage.Error{Outcome: out, Err: err}
}

// uncertain is the error of a volume that a driver made, and that can't be used.
func uncertain(err error) error { return &storage.Error{Outcome: storage.Uncertain, Err: err} }

// unrepeatable is the error of a call that can't be made any more.
func unrepeatable(err error) error { return &storage.Error{Outcome: storage.Unrepeatable, Err: err} }

// missing is the error of a call for which the API server didn't give a secret or a token. If it says that there is none, or that this node
// may not have it, that may be because the pod, or its namespace, is gone.
func missing(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsConflict(err) {
		return unrepeatable(err)
	}
	return notSent(err)
}
