package csinode

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// collisionError is a topology that differs from the Node's labels.
type collisionError struct{ error }

// refusal reports whether the error is about what a driver says, so that it isn't repeated soon.
func refusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) ||
		errors.As(err, new(collisionError))
}

// judge records the result of writing a driver's part. A refusal is logged once, and isn't an error of the round.
func (k *Keeper) judge(driver string, err error) (accepted bool, other error) {
	switch {
	case err == nil:
		return true, nil
	case !refusal(err):
		return false, err
	}
	// The message has the version of the object in some cases; the reason hasn't.
	reason := string(apierrors.ReasonForError(err))
	if before, was := k.refused[driver]; !was || before != reason {
		k.log.Error("what a CSI driver says of the node is refused; its volumes may not be attached or provisioned for this node", "driver", driver, "error", err)
	}
	k.refused[driver] = reason
	return false, nil
}

// accept records that all parts of a driver are written.
func (k *Keeper) accept(driver string) {
	if _, was := k.refused[driver]; was {
		delete(k.refused, driver)
		k.log.Info("what a CSI driver says of the node is no longer refused", "driver", driver)
	}
}

// report logs a failure of the API server when it begins, when its reason changes, and when it ends.
func (k *Keeper) report(err error) {
	if err == nil {
		if k.failing != "" {
			k.log.Info("the CSINode is kept again")
		}
		k.failing = ""
		return
	}
	// An unknown reason, such as that of a refused connection, is empty.
	reason := "failed " + string(apierrors.ReasonForError(err))
	if k.failing != reason {
		k.log.Warn("the CSINode can't be kept; trying again", "error", err)
	}
	k.failing = reason
}
