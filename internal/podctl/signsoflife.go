package podctl

import (
	"errors"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/durationpb"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// signsOfLife is what watch and record expect of a podconfigd that has nothing to say: the value of --heartbeat-interval.
type signsOfLife struct {
	// interval is how often to ask for a heartbeat. Zero: as often as podconfigd likes, and it may hang for ever.
	interval time.Duration
}

func (s *signsOfLife) addFlag(flags *pflag.FlagSet) {
	flags.DurationVar(&s.interval, "heartbeat-interval", 10*time.Second,
		"how often to ask for a sign of life while there is nothing else; after three times that without one podconfigd counts as hung; "+
			"0 leaves it to podconfigd, and waits forever")
}

func (s signsOfLife) validate() error {
	if s.interval < 0 {
		return errors.New("--heartbeat-interval: want a time from 0")
	}
	return nil
}

// ask puts the interval into a request.
func (s signsOfLife) ask(request *podconfigv1.WatchPodUpdatesRequest) {
	if s.interval > 0 {
		request.HeartbeatInterval = durationpb.New(s.interval)
	}
}

// patience is how long podconfigd may say nothing. Zero: for ever.
func (t *tool) patience(s signsOfLife) time.Duration {
	switch {
	case s.interval == 0:
		return 0
	case t.Silence > 0:
		return t.Silence
	}
	// podconfigd takes less than a second as one.
	return 3 * max(s.interval, time.Second)
}
