package podctl

import (
	"errors"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/durationpb"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// heartbeatOptions is the value of --heartbeat-interval: how often watch and record expect a heartbeat from a quiet
// podconfigd.
type heartbeatOptions struct {
	// interval is the requested interval of heartbeats. Zero means podconfigd's default, without a limit for its
	// silence.
	interval time.Duration
}

func (s *heartbeatOptions) addFlag(flags *pflag.FlagSet) {
	flags.DurationVar(&s.interval, "heartbeat-interval", 10*time.Second,
		"the interval of heartbeats while there is nothing else; after three intervals without a message podconfigd counts as hung; "+
			"0 means podconfigd's default, and waits forever")
}

func (s heartbeatOptions) validate() error {
	if s.interval < 0 {
		return errors.New("--heartbeat-interval: want a time from 0")
	}
	return nil
}

// ask puts the interval into a request.
func (s heartbeatOptions) ask(request *podconfigv1.WatchPodUpdatesRequest) {
	if s.interval > 0 {
		request.HeartbeatInterval = durationpb.New(s.interval)
	}
}

// patience returns the limit for podconfigd's silence. Zero means none.
func (t *tool) patience(s heartbeatOptions) time.Duration {
	switch {
	case s.interval == 0:
		return 0
	case t.Silence > 0:
		return t.Silence
	}
	// podconfigd's minimum is one second.
	return 3 * max(s.interval, time.Second)
}
