package storage

import (
	"errors"
	"fmt"
	"strings"
)

// Outcome says what an error of a Backend's call means for the volume.
type Outcome int

// The outcomes. The zero value is the most careful one.
const (
	// Unanswered: there was no answer, and the driver may still execute the call. The same call is repeated until there
	// is an answer.
	Unanswered Outcome = iota
	// Uncertain: the driver answered, and the answer doesn't say whether anything was done. The volume counts as staged
	// or published. The call is repeated while a pod wants the volume; otherwise it is undone.
	Uncertain
	// InProgress: the driver answered that another call for the volume hasn't ended. Unless that may be an earlier one to unstage the volume,
	// which has no answer then either, it is the same as Uncertain.
	InProgress
	// Final: the driver answered that this call did nothing.
	Final
	// NotSent: no call was made, for example because the driver isn't registered.
	NotSent
	// Unrepeatable: no call was made, and it may never be possible again: a secret that it needs, or the device, is gone, for example. If an
	// earlier one has no answer, and no pod wants the volume, it is undone. The volume could never be unmounted otherwise.
	Unrepeatable

	// succeeded is the outcome of a nil error.
	succeeded
)

// Error is an error of a Backend with its outcome.
type Error struct {
	Outcome Outcome
	Err     error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// OutcomeOf returns the outcome of a Backend's error. An error that isn't an Error is Unanswered.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return succeeded
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Outcome > Unanswered && e.Outcome < succeeded {
		return e.Outcome
	}
	return Unanswered
}

// InUseError is the error of a volume that another pod uses, and that pods don't share.
type InUseError struct {
	// Volume is its handle, User the pod that uses it, and Pod the one that waits.
	Volume, User, Pod string
	// Shares is set if the pod that waits would share it, and only the user doesn't. OncePod is the Volume's.
	Shares, OncePod bool
}

func (e *InUseError) Error() string {
	switch {
	case e.OncePod:
		return "volume uses the ReadWriteOncePod access mode and is already in use by another pod: " + e.User
	case e.Shares:
		return fmt.Sprintf("%s is used by pod %s, which doesn't share it: pod %s waits until that pod is gone", e.Volume, e.User, e.Pod)
	}
	return fmt.Sprintf("%s is used by pod %s, and isn't ReadWriteMany: pod %s waits until that pod is gone", e.Volume, e.User, e.Pod)
}

// ContextError is the error of a volume that another pod uses with another SELinux context. A file system has one.
type ContextError struct {
	// Volume is the name of the PersistentVolume, User the pod that uses it, with the context Has, and Pod the one that waits, which needs
	// Wants. An empty context is that of the files themselves.
	Volume, User, Pod, Has, Wants string
	// Others are the volumes of the pod itself that use it with the context Has. Empty: it is another pod's.
	Others []string
}

func (e *ContextError) Error() string {
	text := fmt.Sprintf("conflicting SELinux labels of volume %s: %q and %q: ", e.Volume, e.Has, e.Wants)
	if len(e.Others) > 0 {
		return text + fmt.Sprintf("the pod has it as its volume %s too, with the first one: the containers that mount them need the same "+
			"seLinuxOptions, or the pod seLinuxChangePolicy: Recursive", strings.Join(e.Others, ", "))
	}
	if e.User == e.Pod {
		return text + "it is being mounted for this pod with the first one"
	}
	return text + fmt.Sprintf("pod %s uses it with the first one; pod %s waits until that pod is gone", e.User, e.Pod)
}

// Errors of SetUp, TearDown and Stats.
var (
	// ErrNoAttachments is the error of a volume that must be attached, on a node without an API server.
	ErrNoAttachments = errors.New("the volume must be attached by a controller, and this node has no API server")
	// ErrBusy is the error of a volume that waits for another operation.
	ErrBusy = errors.New("an operation hasn't ended yet")
	// ErrTooMany is the error of a volume that exceeds the bound of volumes on this node.
	ErrTooMany = errors.New("the node has too many volumes")
	// ErrNoStats is wrapped by the error of Stats if the driver has no statistics of volumes.
	ErrNoStats = errors.New("the driver has no statistics of volumes")
	// ErrNoExpand is wrapped by the error of Expand if the node can't expand volumes of this kind: their size is the concern of
	// a server, or of nothing. Pods use them as they are.
	ErrNoExpand = errors.New("volumes of this kind can't be expanded on the node")
	// ErrStopped is the error of calls after Run has ended.
	ErrStopped = errors.New("podexecd is stopping")
)
