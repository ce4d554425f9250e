package calllog

import (
	"encoding/json"
	"time"

	"google.golang.org/grpc/codes"
)

// Event is what a line is about.
type Event string

// The events of a log.
const (
	// Start is the start of a driver: calls of its earlier runs have ended without an answer.
	Start Event = "start"
	// Begin is written before a call acts.
	Begin Event = "begin"
	// End is written before a call is answered.
	End Event = "end"
	// Gone says that the caller has cancelled the call, or its connection has ended, before the call's end.
	Gone Event = "gone"
	// Registration is a call of NotifyRegistrationStatus. Message is its error.
	Registration Event = "registration"
	// Off is written by a test after it has ended a node with its drivers, as a power cut does: calls of Driver on Node are cut off, and
	// nothing is staged or published there any more. Run is empty.
	Off Event = "off"
)

// Record is a line of a log.
type Record struct {
	Time  time.Time `json:"time"`
	Event Event     `json:"event"`
	// Driver and Node are the driver's name, and its node's ID. Run is different in each run.
	Driver string `json:"driver"`
	Node   string `json:"node"`
	Run    string `json:"run"`

	// Stages is set at Start, if the driver has the capability STAGE_UNSTAGE_VOLUME; Attaches, if it must be attached.
	Stages   bool `json:"stages,omitempty"`
	Attaches bool `json:"attaches,omitempty"`

	// Call is the number of a call in its run, from 1.
	Call   int    `json:"call,omitempty"`
	Method string `json:"method,omitempty"`
	Volume string `json:"volume,omitempty"`
	// Target is the target path, or the path of NodeExpandVolume and NodeGetVolumeStats.
	Target  string `json:"target,omitempty"`
	Staging string `json:"staging,omitempty"`
	// Args is the whole request in JSON. Values of secrets are replaced.
	Args json.RawMessage `json:"args,omitempty"`
	// Connection is the number of the caller's connection in its run.
	Connection int64 `json:"connection,omitempty"`
	// Overlaps are the calls for the volume that were under way when this one arrived, and whose callers hadn't gone.
	Overlaps []int `json:"overlaps,omitempty"`

	// Code and Message are the answer, at End.
	Code    codes.Code `json:"code,omitempty"`
	Message string     `json:"message,omitempty"`
	// Fault is the action of the fault that the call has met, at End.
	Fault string `json:"fault,omitempty"`
}
