package image

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/status"
	crierrors "k8s.io/cri-api/pkg/errors"
)

// Wait is why a container's image isn't available now, for the container's status.
type Wait struct {
	// Reason is one of those below.
	Reason, Message string
	// RetryAfter is when to try again. Zero: time doesn't help.
	RetryAfter time.Duration
	// Pulling is set while the image is being pulled, or its pull is queued: Config.Done is called at the end. It is also
	// set while the pod waits for its pull secrets.
	Pulling bool
}

// The reasons, as in the kubelet (pkg/kubelet/images/types.go).
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

// explain returns the reason and message of a failed pull. Runtimes put the reason first in some errors, as the CRI
// specifies.
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

// maxMessage is how many bytes of a message or an error are kept, as of an event's. They come from the pod, the runtime
// and the registry, and are in the pod's status.
const maxMessage = 4 << 10

// clip returns the text, or its beginning with "…" if it has more bytes than limit.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit
	for end > limit-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// clippedError is an error with a shorter text.
type clippedError struct {
	error
	text string
}

func (e clippedError) Error() string { return e.text }
func (e clippedError) Unwrap() error { return e.error }

func clipError(err error) error {
	if err == nil || len(err.Error()) <= maxMessage {
		return err
	}
	return clippedError{err, clip(err.Error(), maxMessage)}
}
