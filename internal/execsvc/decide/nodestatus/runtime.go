package nodestatus

import (
	"errors"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runtimeDown is how long a runtime may not answer before it counts as down.
const runtimeDown = 30 * time.Second

// Runtime is the last known state of the container runtime.
type Runtime struct {
	// Name and Version are the runtime's. Empty: it hasn't answered yet.
	Name, Version string
	// Answered is when its conditions were last read. Zero: never.
	Answered time.Time
	// Silent is set if the last call failed.
	Silent bool
	// Ready and Network are its conditions RuntimeReady and NetworkReady. Nil: it has none.
	Ready, Network *runtimeapi.RuntimeCondition
	// PLEG is the reason why changes of pods can't be observed; nil while they can. A single listing that fails doesn't
	// count: the kubelet waits for three minutes.
	PLEG error
	// Handlers and Features are those that it supports. Nil: it doesn't report them, or hasn't answered yet.
	Handlers []*runtimeapi.RuntimeHandler
	Features *runtimeapi.RuntimeFeatures
}

// Down reports whether the runtime doesn't answer: not yet, or no longer.
func (r Runtime) Down(now time.Time) bool { return now.Sub(r.Answered) >= runtimeDown }

// Errors returns the reasons why the runtime can't run pods, in the kubelet's words.
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
	if !answered {
		errs = append(errs, errors.New("network state unknown"))
	}
	if answered && !r.Network.GetStatus() {
		errs = append(errs, fmt.Errorf("container runtime network not ready: %s", conditionText(runtimeapi.NetworkReady, r.Network)))
	}
	return errs
}

func conditionText(name string, c *runtimeapi.RuntimeCondition) string {
	return fmt.Sprintf("%s=%t reason:%s message:%s", name, c.GetStatus(), c.GetReason(), c.GetMessage())
}
