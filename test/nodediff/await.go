package nodediff

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Await waits until all sections are there. If they aren't in time, the comparison finds that.
func (r *Run) Await(ctx context.Context, wants ...string) error {
	for begin := time.Now(); time.Since(begin) < r.limit(); {
		seen, err := r.look(ctx)
		if err != nil {
			return err
		}
		if len(seen.missing(wants)) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(300 * time.Millisecond):
		}
	}
	return nil
}

// limit bounds the time until all sections that are awaited are there.
func (r *Run) limit() time.Duration {
	if r.Case.Long {
		return 12 * time.Minute
	}
	return 80 * time.Second
}

// missing returns the wants that aren't there.
func (s Seen) missing(wants []string) []string {
	return slices.DeleteFunc(slices.Clone(wants), s.has)
}

// settle waits until all is complete and nothing changes, and returns what is seen.
func (r *Run) settle(ctx context.Context, complete func(Seen) bool) (Seen, error) {
	begin, last, since := time.Now(), "", time.Now()
	for {
		if r.agent().ended() {
			return nil, fmt.Errorf("%s has ended: %w\n%s", r.Agent, r.agent().err, r.agent().tail(4000))
		}
		seen, err := r.look(ctx)
		if err != nil {
			return nil, err
		}
		if text := seen.String(); text != last {
			last, since = text, time.Now()
		}
		calm, late := time.Since(since), time.Since(begin) > r.limit()
		if late || calm > quiet && complete(seen) || r.Agent == Podstream && !r.Case.Long && calm > idle {
			return seen, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}
