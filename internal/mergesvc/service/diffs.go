package service

import (
	"context"

	"github.com/podstream/podstream/internal/access"
)

// diffShare limits the concurrent calls of DiffManifests: each has a request of several MiB in memory.
var diffShare = share{total: 16, each: 4, reserve: 4}

// diffs allows one DiffManifests at a time to read its manifests, as decoding takes a multiple of their size.
type diffs struct {
	underWay *sharedAmount
	reading  chan struct{}
}

func newDiffs() *diffs {
	return &diffs{underWay: newSharedAmount(diffShare), reading: make(chan struct{}, 1)}
}

// begin waits until the caller may read its manifests. end must be called once, afterwards. A caller that isn't an
// owner waits in the admission queue first: only admitted calls read, so that an owner waits for one of them at most.
func (d *diffs) begin(ctx context.Context, caller access.Caller, q *admissionQueue) (end func(), err error) {
	if limit, own, ok := d.underWay.take(caller, 1); !ok {
		of := "all callers"
		if own {
			of = caller.Identity
		}
		return nil, resourceExhausted("%d calls of DiffManifests by %s are under way, which is the limit; try again later", limit, of)
	}
	leave, err := q.take(ctx, caller)
	if err != nil {
		d.underWay.give(caller, 1)
		return nil, err
	}
	select {
	case d.reading <- struct{}{}:
	case <-ctx.Done():
		leave()
		d.underWay.give(caller, 1)
		return nil, statusOf(ctx.Err())
	}
	return func() {
		<-d.reading
		leave()
		d.underWay.give(caller, 1)
	}, nil
}
