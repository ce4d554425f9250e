package foreign

import (
	"context"
	"time"

	"github.com/podstream/podstream/internal/execsvc/setup/volume/ownership"
)

// changeLimit is the limit of one change of a volume's group.
const changeLimit = time.Hour

// Groups changes the groups of volumes' files, which may take longer than the call that waits for it: one change for each
// mount point at a time. Close ends its goroutines, one for each change.
type Groups struct {
	*Lasting
	// set changes a volume. It returns soon after its context has ended. volume is the name of the volume for people.
	set func(ctx context.Context, volume string, r ownership.Request) error
}

// SetGroup changes a volume to a group, in a helper.
func (h *Helpers) SetGroup(ctx context.Context, volume string, r ownership.Request) error {
	_, err := h.Do(ctx, volume, Job{Group: &r})
	return err
}

// NewGroups returns Groups whose changes are made by set, which is a Helpers' SetGroup outside of tests.
func NewGroups(set func(ctx context.Context, volume string, r ownership.Request) error) *Groups {
	return &Groups{NewLasting(changeLimit, "the group of its files is still being changed"), set}
}

// Change has the files changed, and waits for it. If ctx ends first, the next call for the same mount point waits again.
func (g *Groups) Change(ctx context.Context, volume string, r ownership.Request) error {
	return g.Do(ctx, r.Dir, func(ctx context.Context) error { return g.set(ctx, volume, r) })
}
