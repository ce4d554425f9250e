package fault

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
)

// Action is what a fault does.
type Action string

// The actions of a fault.
const (
	// Delay waits for Fault.Delay, then the call acts.
	Delay Action = "delay"
	// Hang never returns, also if the caller has gone. The call doesn't act.
	Hang Action = "hang"
	// Hold waits until the fault is released or removed, also if the caller has gone. Then the call acts.
	Hold Action = "hold"
	// Fail returns Fault.Code. The call doesn't act.
	Fail Action = "fail"
	// ActFail acts, and returns Fault.Code if that has succeeded.
	ActFail Action = "act-fail"
	// Die kills the driver before the call acts.
	Die Action = "die"
	// ActDie acts, and kills the driver before the end of the call is logged.
	ActDie Action = "act-die"
	// Huge acts, and answers 100 MB.
	Huge Action = "huge"
)

// Fault is a fault for the calls of a method.
type Fault struct {
	// Method is a method's name without its service: "NodeStageVolume". Empty: all methods, also Probe and NodeGetInfo.
	Method string `json:"method,omitempty"`
	// Volume is the ID of a volume. Empty: all calls, also those without a volume.
	Volume string `json:"volume,omitempty"`
	Action Action `json:"action"`
	// Delay passes before any action. Zero: none.
	Delay time.Duration `json:"delay,omitempty"`
	// Code and Message are the answer of Fail and ActFail.
	Code    codes.Code `json:"code,omitempty"`
	Message string     `json:"message,omitempty"`
	// Times is the number of calls that the fault acts on. Zero: all, until it is removed.
	Times int `json:"times,omitempty"`
	// Busy makes other calls for the volume fail with Aborted while this one waits. Otherwise they act, or wait too.
	Busy bool `json:"busy,omitempty"`
}

// check returns what is wrong with a fault.
func (f Fault) check() error {
	switch f.Action {
	case Delay:
		if f.Delay <= 0 {
			return errors.New("the fault has no delay")
		}
	case Fail, ActFail:
		if f.Code == codes.OK {
			return errors.New("the fault has no code")
		}
	case Hang, Hold, Die, ActDie, Huge:
	default:
		return fmt.Errorf("unknown action %q", f.Action)
	}
	if f.Times < 0 || f.Delay < 0 {
		return errors.New("times and delay can't be negative")
	}
	return nil
}

// matches reports whether the fault is one of these calls.
func (f Fault) matches(method, volume string) bool {
	return (f.Method == "" || f.Method == method) && (f.Volume == "" || f.Volume == volume)
}
