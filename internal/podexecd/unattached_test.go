package podexecd

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// controlled are Attachments that count calls.
type controlled struct {
	storage.Attachments
	dropped int
}

func (c *controlled) DropInUse(context.Context, string) error {
	c.dropped++
	return nil
}

// TestUnattached: with enableControllerAttachDetach: false no volume is marked in use or awaited; the error names the field, and nothing
// was sent. A volume of before can leave volumesInUse.
func TestUnattached(t *testing.T) {
	c := &controlled{}
	a := unattached{c}
	_, wait := a.WaitAttached(t.Context(), storage.Volume{})
	for _, err := range []error{a.MarkInUse(t.Context(), "kubernetes.io/csi/d^v"), wait} {
		if !errors.Is(err, errUnattached) || storage.OutcomeOf(err) != storage.NotSent || !strings.Contains(err.Error(), "enableControllerAttachDetach") {
			t.Errorf("%v", err)
		}
	}
	if err := a.DropInUse(t.Context(), "kubernetes.io/csi/d^v"); err != nil || c.dropped != 1 {
		t.Errorf("%v, %d calls", err, c.dropped)
	}
}
