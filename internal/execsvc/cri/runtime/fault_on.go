//go:build failpoints

package runtime

import (
	"time"

	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/failpoint"
)

// begun is when this podexecd started. Containers that are older were adopted.
var begun = time.Now()

func (s *stopper) faulty(begun time.Time) time.Time {
	if failpoint.Active(failpoint.UntoldGrace) && !s.Since.IsZero() {
		return s.Since
	}
	return begun
}

func (s *round) faulty(do actions.Actions) actions.Actions {
	if failpoint.Active(failpoint.DoubleStart) && len(do.Start) > 0 && do.Start[0].Last == nil && !do.Start[0].Init {
		do.Start = append(do.Start, do.Start[0])
	}
	if failpoint.Active(failpoint.RestartAdopted) {
		for _, c := range s.Has.Containers {
			if c.State == observed.Running && c.Created.Before(begun) {
				do.Kill = append(do.Kill, actions.Kill{Container: c, Reason: "was adopted", Grace: podmeta.GracePeriod(s.Pod), Restart: true})
			}
		}
	}
	return do
}
