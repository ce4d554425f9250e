package foreign

import (
	"errors"
	"fmt"
	"testing"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign/tree"
)

// TestReasons: the reasons of package tree's errors reach podexecd, and other errors have none.
func TestReasons(t *testing.T) {
	for want, err := range map[Reason]error{
		Missing: tree.ErrMissing, Mounted: tree.ErrMounted, NotEmpty: tree.ErrNotEmpty, Unsynced: tree.ErrUnsynced,
		Refused: &tree.RefusedError{Text: "a device"}, "": errors.New("another"),
	} {
		f := failureOf(fmt.Errorf("import: %w", err))
		got := &Error{Text: f.Text, Reason: f.Reason}
		if f.Reason != want || want != "" && !IsReason(fmt.Errorf("volume: %w", got), want) {
			t.Errorf("%v: %q; want %q", err, f.Reason, want)
		}
	}
	if IsReason(tree.ErrMissing, Missing) {
		t.Error("an error of this process counts as a helper's")
	}
}
