package podexecd

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// The node's addresses may change while podexecd runs, and at boot there may be none yet.
func TestAddressesAreLookedUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now []string
		looks := 0
		a := &addresses{find: func() []string { looks++; return now }, clock: clock.RealClock{}}
		for _, step := range []struct {
			what  string
			after time.Duration
			now   []string
			// want is what two calls return, the second one after the search that the first one began.
			want  [2][]string
			looks int
		}{
			{"none yet", 0, nil, [2][]string{nil, nil}, 2},
			{"there is one", 0, []string{"10.0.0.1"}, [2][]string{nil, {"10.0.0.1"}}, 3},
			{"remembered", addressesFresh - 1, []string{"10.0.0.2"}, [2][]string{{"10.0.0.1"}, {"10.0.0.1"}}, 3},
			{"another one", 1, []string{"10.0.0.2"}, [2][]string{{"10.0.0.1"}, {"10.0.0.2"}}, 4},
			{"it goes", addressesFresh, nil, [2][]string{{"10.0.0.2"}, nil}, 6},
			{"and comes back", 0, []string{"10.0.0.2"}, [2][]string{nil, {"10.0.0.2"}}, 7},
		} {
			time.Sleep(step.after)
			now = step.now
			for i, want := range step.want {
				if got := a.get(); !slices.Equal(got, want) {
					t.Errorf("%s: call %d returns %v; want %v", step.what, i, got, want)
				}
				synctest.Wait()
			}
			if looks != step.looks {
				t.Errorf("%s: %d searches; want %d", step.what, looks, step.looks)
			}
		}
	})
}

// No status waits for DNS: a search that hangs delays nothing but the first call, which has no addresses.
func TestAddressesWaitForNoSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan []string)
		a := &addresses{find: func() []string { return <-answers }, clock: clock.RealClock{}}
		first := make(chan []string)
		for range 2 {
			go func() { first <- a.get() }()
		}
		synctest.Wait()
		answers <- []string{"10.0.0.1"}
		for range 2 {
			if got := <-first; !slices.Equal(got, []string{"10.0.0.1"}) {
				t.Errorf("a first call returns %v; want the address", got)
			}
		}
		time.Sleep(addressesFresh)
		began := time.Now()
		for range 2 {
			if got := a.get(); !slices.Equal(got, []string{"10.0.0.1"}) {
				t.Errorf("during a search: %v; want the last address", got)
			}
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the calls took %v", took)
		}
		answers <- []string{"10.0.0.2"}
		synctest.Wait()
		if got := a.get(); !slices.Equal(got, []string{"10.0.0.2"}) {
			t.Errorf("after the search: %v; want the new address", got)
		}
	})
}
