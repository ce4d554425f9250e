package migration

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// grace is how long a read may take to return once its time is over. Most return at once; a system call can't be interrupted.
const grace = time.Second

// patiently calls read with the time limit; zero is none. A read that doesn't end is left behind: it waits in a system call, for
// example for the server of a file system. Its result, and what it adds to the report, aren't used any more.
func patiently[T any](ctx context.Context, limit time.Duration, what string, read func(context.Context) (T, error)) (T, error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read(ctx)
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-timer.C:
	}
	var none T
	if errors.Is(ctx.Err(), context.Canceled) {
		return none, context.Cause(ctx)
	}
	return none, fmt.Errorf("%s: reading hasn't ended within %v: a file or a program doesn't answer", what, limit)
}
