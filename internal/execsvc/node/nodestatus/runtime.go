package nodestatus

import (
	"errors"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runtimeDown is how long a runtime may be silent before it counts as down.
const runtimeDown = 30 * time.Second

// Runtime is the state of the container runtime, as it was last told.
type Runtime struct {
	// Name and Version are how it calls itself. Empty: it hasn't told yet.
	Name, Version string
	// Answered is when it last told its conditions. Zero: never yet.
	Answered time.Time
	// Ready and Network are its conditions RuntimeReady and NetworkReady. Nil: it has none.
	Ready, Network *runtimeapi.RuntimeCondition
	// PLEG is why what pods do can't be followed; nil while it can. A single listing that fails is none: the kubelet waits for three minutes.
	PLEG error
	// Handlers and Features are what it can do. Nil: it doesn't tell.
	Handlers []*runtimeapi.RuntimeHandler
	Features *runtimeapi.RuntimeFeatures
}

// Down tells whether the runtime doesn't answer: not yet, or not any more.
func (r Runtime) Down(now time.Time) bool { return now.Sub(r.Answered) >= runtimeDown }

// Errors are the reasons for which the runtime can't run pods, in the kubelet's words.
func (r Runtime) Errors(now time.Time) []error {
	var errs []error
	answered := !r.Answered.IsZero()
	switch {
	case !answered:
		errs = append(errs, errors.New("container runtime status check may not have completed yet"))
	case r.Down(now):
		errs = append(errs, errors.New("container runtime is down"))
	}
	if r.PLEG != nil {
		errs = append(errs, fmt.Errorf("PLEG is not healthy: %w", r.PLEG))
	}
	if answered && !r.Ready.GetStatus() {
		errs = append(errs, fmt.Errorf("container runtime not ready: %s", conditionText(runtimeapi.RuntimeReady, r.Ready)))
	}
	if answered && !r.Network.GetStatus() {
		errs = append(errs, fmt.Errorf("container runtime network not ready: %s", conditionText(runtimeapi.NetworkReady, r.Network)))
	}
	return errs
}

func conditionText(name string, c *runtimeapi.RuntimeCondition) string {
	return fmt.Sprintf("%s=%t reason:%s message:%s", name, c.GetStatus(), c.GetReason(), c.GetMessage())
}
