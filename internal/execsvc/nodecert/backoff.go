package nodecert

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// firstPause doubles up to longestPause, which is the kubelet's too: a certificate comes soon after the API server is back.
	firstPause, longestPause = 2 * time.Second, 32 * time.Second
	// refusedPause is after a refusal, which was meant.
	refusedPause = 5 * time.Minute
)

// backoff is how long to wait between two tries for a certificate. Its zero value is ready to use.
type backoff struct{ next wait.Backoff }

func (b *backoff) reset() { *b = backoff{} }

// after is the pause after a failure.
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

// whatOf is the failure in the words by which it is told once.
func whatOf(err error) string {
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		return "a certificate was refused; asking again in some minutes"
	case errors.Is(err, errNotApproved):
		return "a certificate signing request waits for somebody to approve it"
	default:
		return "no certificate can be had; trying again"
	}
}
