package service

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/merge"
)

// TestAdmissionIsFair: one call runs at a time, and identities are admitted in rotation, one call each, however
// many calls an identity has. A call that no longer waits delays no other.
func TestAdmissionIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lane admissionQueue
		var mu sync.Mutex
		var got []string
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, what)
		}
		call := func(ctx context.Context, name string, identity string, work time.Duration) {
			go func() {
				end, err := lane.take(ctx, access.Caller{Identity: identity})
				if err != nil {
					note(name + " left")
					return
				}
				time.Sleep(work)
				note(name)
				end()
			}()
			synctest.Wait()
		}
		const short, long = time.Millisecond, time.Minute
		for i := range 4 {
			call(t.Context(), fmt.Sprint("greedy ", i), "greedy", short)
		}
		call(t.Context(), "relay 0", "relay", short)
		call(t.Context(), "relay 1", "relay", short)
		call(t.Context(), "other 0", "other", short)
		impatient, cancel := context.WithCancel(t.Context())
		call(impatient, "other 1", "other", short)
		call(impatient, "impatient", "impatient", short)
		cancel()
		synctest.Wait()
		time.Sleep(time.Hour)
		synctest.Wait()
		slices.Sort(got[:2])
		want := []string{"impatient left", "other 1 left", "greedy 0", "greedy 1", "relay 0", "other 0", "greedy 2", "relay 1", "greedy 3"}
		if !slices.Equal(got, want) {
			t.Errorf("the calls are served in the order %q; want %q", got, want)
		}
		if lane.busy || lane.queue.Len() > 0 {
			t.Errorf("after the last call there is left: %+v; want nothing", &lane)
		}

		got = nil
		began := time.Now()
		call(t.Context(), "long", "greedy", long)
		call(t.Context(), "after it", "relay", short)
		time.Sleep(2 * long)
		synctest.Wait()
		if pause := time.Since(began); !slices.Equal(got, []string{"long", "after it"}) || pause < long+maxPause {
			t.Errorf("after %v there were %q; want a call after the long one and its pause", pause, got)
		}
		if end, err := lane.take(impatient, access.Caller{Identity: "uid:0"}); err != nil {
			t.Errorf("an owner waits: %v", err)
		} else {
			end()
		}
	})
}

// TestAdmissionLeaveLate: a call that leaves just when it is admitted admits the next one.
func TestAdmissionLeaveLate(t *testing.T) {
	var lane admissionQueue
	end, err := lane.take(t.Context(), access.Caller{Identity: "a"})
	if err != nil {
		t.Fatal(err)
	}
	late := lane.enter("b")
	end()
	<-late
	lane.leave("b", late)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := lane.take(ctx, access.Caller{Identity: "c"}); err != nil {
		t.Errorf("the call after one that left: %v; want it admitted", err)
	}
}

// TestListSourcesHasItsOwnQueue: ListSources doesn't wait for an identity that lists consumers all the time.
func TestListSourcesHasItsOwnQueue(t *testing.T) {
	s := New(Config{History: history.New(history.Config{}), Sources: func() []merge.SourceState { return nil }})
	defer s.Close()
	end, err := s.consumerAdmission.take(t.Context(), access.Caller{Identity: "greedy"})
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	ctx, cancel := context.WithTimeout(access.NewContext(t.Context(), access.Caller{Identity: "relay", Role: access.Consumer}), time.Second)
	defer cancel()
	if _, err := s.ListConsumers(ctx, nil); err == nil {
		t.Error("ListConsumers is answered while another one is under way; want it to wait")
	}
	ctx, cancel = context.WithTimeout(access.NewContext(t.Context(), access.Caller{Identity: "relay", Role: access.Consumer}), time.Minute)
	defer cancel()
	if _, err := s.ListSources(ctx, nil); err != nil {
		t.Errorf("ListSources: %v; want the list at once", err)
	}
}
