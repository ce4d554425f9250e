package runtime

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/status"
)

// Answer returns the runtime's own error within err, or err if the runtime has not answered. The kubelet's events have
// only that.
func Answer(err error) error {
	var answer interface {
		error
		GRPCStatus() *status.Status
	}
	if errors.As(err, &answer) {
		return answer
	}
	return err
}

// killError is why a container or sandbox could not be stopped. Its text is the kubelet's (SyncResult in
// pkg/kubelet/container/sync_result.go).
type killError struct {
	// action is KillContainer or KillPodSandbox. target is the container's name, or the pod's UID.
	action, target string
	err            error
}

func (e *killError) Error() string {
	return fmt.Sprintf("failed to %q for %q with %sError: %q", e.action, e.target, e.action, e.err.Error())
}

func (e *killError) Unwrap() error { return e.err }
