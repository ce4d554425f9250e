//go:build !failpoints

package runtime

import "github.com/podstream/podstream/internal/execsvc/actions"

func (s *round) faulty(do actions.Actions) actions.Actions { return do }
