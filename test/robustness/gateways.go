package robustness

import (
	"time"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/manifest"
)

// The sources of a gateway.
const (
	fileSource = "file"
	apiSource  = "api"
)

// Gateways are several daemons whose source "api" follows one API server, while each has a source "file" of its own.
type Gateways struct {
	Truth *Truth
	// Lives are the starts of all daemons. Stream.Life is the number of one, from 1.
	Lives []*GatewayLife
}

// GatewayLife is one daemon, from a start on.
type GatewayLife struct {
	Name string
	// Readings are what it had, in order. The first is what it found in its store.
	Readings []Reading
}

// Reading is what a gateway has after a set of one of its sources.
type Reading struct {
	// At is when it was handed over, at the latest.
	At time.Time
	// Revision is the daemon's revision after it.
	Revision uint64
	// Moment is a moment whose pods are those of the source api. Published is the one at which these pods last made a
	// revision. Both are settled.
	Moment, Published int
	// Position is that up to which the pods are known to be current. Without a cluster it isn't known.
	Position position.Position
	// File are the pods of the source file.
	File []*manifest.Pod
}

// latest returns the last reading that a message of that time can be of.
func (l *GatewayLife) latest(at time.Time) *Reading {
	last := &l.Readings[0]
	for i := range l.Readings {
		if !l.Readings[i].At.After(at) {
			last = &l.Readings[i]
		}
	}
	return last
}

// published returns the moment whose pods a revision shows, not later than a time.
func (l *GatewayLife) published(revision uint64, at time.Time) int {
	moment := l.Readings[0].Published
	for _, r := range l.Readings {
		if r.Revision <= revision && !r.At.After(at) {
			moment = r.Published
		}
	}
	return moment
}

// displaced reports whether the source file had a pod of that name, not later than a time: it takes precedence.
func (l *GatewayLife) displaced(namespace, name string, at time.Time) bool {
	for _, r := range l.Readings {
		for _, p := range r.File {
			if !r.At.After(at) && p.Namespace == namespace && p.Name == name {
				return true
			}
		}
	}
	return false
}
