package storage

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// TestSharedName: a name that another volume has in volumesInUse, or is about to have, stays there: it is another use of the same disk.
func TestSharedName(t *testing.T) {
	d := newTruth()
	s := New(Config{Attachments: d})
	for _, handle := range []string{"h", "h2"} {
		e := newEntry(newState(record.Key{Driver: "d", Handle: handle}))
		e.state.UniqueName, e.state.Use = "name^h", record.InUse
		s.entries[e.state.Key] = e
	}
	of := func(handle string) *state { return &s.entries[record.Key{Driver: "d", Handle: handle}].state }
	for use, want := range map[record.Use][]string{
		record.InUse: nil, record.AddingUse: nil, record.DroppingUse: {"drop name^h"}, record.NotInUse: {"drop name^h"},
	} {
		of("h2").Use = use
		if _, err := s.perform(t.Context(), operation{kind: dropInUse}, of("h")); err != nil {
			t.Error(err)
		}
		if calls := d.called(); !slices.Equal(calls, want) {
			t.Errorf("the other one is %q: calls %q, want %q", use, calls, want)
		}
	}
}

// TestSharedNameMeanwhile: a name that another volume marks while it is being dropped is marked after that.
func TestSharedNameMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTruth()
		s := New(Config{Attachments: d})
		of := map[string]*entry{}
		for _, handle := range []string{"h", "h2"} {
			of[handle] = newEntry(newState(record.Key{Driver: "d", Handle: handle}))
			of[handle].state.UniqueName = "name^h"
			s.entries[of[handle].state.Key] = of[handle]
		}
		of["h"].state.Use, of["h2"].state.Use = record.DroppingUse, record.NotInUse
		release := make(chan struct{})
		d.answer(func(_ context.Context, call string) error {
			if call == "drop name^h" {
				<-release
			}
			return nil
		})
		ended := make(chan error, 2)
		made := func(kind kind, handle string) {
			_, err := s.perform(t.Context(), operation{kind: kind}, &of[handle].state)
			ended <- err
		}
		go made(dropInUse, "h")
		synctest.Wait()
		s.mu.Lock()
		of["h2"].state.Use = record.AddingUse
		s.mu.Unlock()
		go made(markInUse, "h2")
		synctest.Wait()
		close(release)
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if calls := d.called(); !slices.Equal(calls, []string{"drop name^h", "mark name^h"}) || !d.used("h") || len(s.changing) > 0 {
			t.Errorf("calls %q; in use: %v", calls, d.used("h"))
		}
	})
}
