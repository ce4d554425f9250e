package storage

import (
	"slices"
	"testing"

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
