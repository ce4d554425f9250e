package image

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/status"
	crierrors "k8s.io/cri-api/pkg/errors"
)

// Wait is why a container's image isn't to be had now, in the words of its status.
type Wait struct {
	// Reason is one of those below.
	Reason, Message string
	// RetryAfter is when to ask again. Zero: it isn't a matter of time.
	RetryAfter time.Duration
	// Pulling is set while the image is being pulled, or waits for its turn: Config.Done tells when it is over.
	Pulling bool
}

// The reasons, as the kubelet shows them (pkg/kubelet/images/types.go).
const (
	ContainerCreating         = "ContainerCreating"
	ErrImagePull              = "ErrImagePull"
	ImagePullBackOff          = "ImagePullBackOff"
	ErrImageNeverPull         = "ErrImageNeverPull"
	ImageInspectError         = "ImageInspectError"
	InvalidImageName          = "InvalidImageName"
	RegistryUnavailable       = "RegistryUnavailable"
	SignatureValidationFailed = "SignatureValidationFailed"
)

// explain finds the reason of a failed pull, and words it. Runtimes begin the text of some errors with the reason, as the CRI has it.
func explain(image string, err error) (reason, message string) {
	text := status.Convert(err).Message()
	if detail, ok := strings.CutPrefix(text, crierrors.ErrRegistryUnavailable.Error()); ok {
		return RegistryUnavailable, fmt.Sprintf("image pull failed for %s because the registry is unavailable%s", image, detail)
	}
	if detail, ok := strings.CutPrefix(text, crierrors.ErrSignatureValidationFailed.Error()); ok {
		return SignatureValidationFailed, fmt.Sprintf("image pull failed for %s because the signature validation failed%s", image, detail)
	}
	return ErrImagePull, err.Error()
}
