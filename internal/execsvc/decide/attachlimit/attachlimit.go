package attachlimit

import (
	"fmt"

	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
)

// Reason is the reason of a pod that fails, the kubelet's.
const Reason = "VolumeAttachmentLimitExceeded"

// ExceededError is the error of a volume for which a pod must fail.
type ExceededError struct{ Err error }

func (e *ExceededError) Error() string { return e.Err.Error() }

// Unwrap returns what the driver's controller says.
func (e *ExceededError) Unwrap() error { return e.Err }

// Exhausted reports whether the error of an attachment says that the node can't have another volume of the driver.
func Exhausted(e *storagev1.VolumeError) bool {
	return e != nil && ptr.Deref(e.ErrorCode, 0) == int32(codes.ResourceExhausted)
}

// Fails reports whether a pod fails for such an attachment. A driver that doesn't have the node's limit updated is not known to mean
// it so: the pod waits.
func Fails(driver *storagev1.CSIDriverSpec) bool {
	return driver != nil && ptr.Deref(driver.NodeAllocatableUpdatePeriodSeconds, 0) > 0
}

// Message returns the kubelet's message. Both lists are names in the pod's spec: the volumes that aren't mounted, and those among them
// that aren't attached. err is why.
func Message(unmounted, unattached []string, err error) string {
	return fmt.Sprintf("Node has reached its volume attachment limit, rejecting pod. unmounted volumes=%v, unattached volumes=%v, "+
		"failed to process volumes=[]: %v", unmounted, unattached, err)
}
