//go:build failpoints

package store

import (
	"time"

	"github.com/podstream/podstream/internal/failpoint"
)

func faulty(s State) State {
	if failpoint.Active(failpoint.ForgetReadiness) {
		clear(s.Statuses)
	}
	if failpoint.Active(failpoint.ShortGrace) {
		for uid, end := range s.Ends {
			end.Grace, end.Deadline = 1, time.Now()
			s.Ends[uid] = end
		}
	}
	return s
}
