package nodecert

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// firstPause doubles up to longestPause, the kubelet's limit: a certificate is requested soon after the API
	// server is back.
	firstPause, longestPause = 2 * time.Second, 32 * time.Second
	// refusedPause is the pause after a denial.
	refusedPause = 5 * time.Minute
)

// backoff is the pause between two attempts. Its zero value is ready to use.
type backoff struct{ next wait.Backoff }

func (b *backoff) reset() { *b = backoff{} }

// after returns the pause after a failure.
func (b *backoff) after(err error) time.Duration {
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		return refusedPause
	case errors.Is(err, errNotApproved):
		return firstPause
	case b.next.Duration == 0:
		b.next = wait.Backoff{Duration: firstPause, Factor: 2, Jitter: 0.1, Steps: 10, Cap: longestPause}
	}
	return b.next.Step()
}

// whatOf returns the message by which the failure is logged once.
func whatOf(err error) string {
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		return "a certificate request was denied; retrying in some minutes"
	case errors.Is(err, errNotApproved):
		return "a certificate signing request waits for approval"
	default:
		return "can't get a certificate; retrying"
	}
}
