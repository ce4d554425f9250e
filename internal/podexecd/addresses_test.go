package podexecd

import (
	"slices"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// The node's addresses may change while podexecd runs, and at boot there may be none yet.
func TestAddressesAreLookedUpAgain(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	var now []string
	looks := 0
	a := &addresses{find: func() []string { looks++; return now }, clock: clock}
	for _, step := range []struct {
		what  string
		after time.Duration
		now   []string
		want  []string
		looks int
	}{
		{"none yet", 0, nil, nil, 1},
		{"at once when there is one", 0, []string{"10.0.0.1"}, []string{"10.0.0.1"}, 2},
		{"remembered", addressesFresh - 1, []string{"10.0.0.2"}, []string{"10.0.0.1"}, 2},
		{"another one", 1, []string{"10.0.0.2"}, []string{"10.0.0.2"}, 3},
		{"it goes", addressesFresh, nil, nil, 4},
		{"and comes back", 0, []string{"10.0.0.2"}, []string{"10.0.0.2"}, 5},
	} {
		clock.SetTime(clock.Now().Add(step.after))
		now = step.now
		if got := a.get(); !slices.Equal(got, step.want) || looks != step.looks {
			t.Errorf("%s: %v after %d looks; want %v after %d", step.what, got, looks, step.want, step.looks)
		}
	}
}
