//go:build !failpoints

package runtime

import (
	"time"

	"github.com/podstream/podstream/internal/execsvc/decide/actions"
)

func (s *stopper) faulty(begun time.Time) time.Time { return begun }

func (s *round) faulty(do actions.Actions) actions.Actions { return do }
