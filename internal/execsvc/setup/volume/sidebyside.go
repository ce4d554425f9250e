package volume

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
)

// maxSideBySide bounds the volumes of a pod that are set up or torn down at once.
const maxSideBySide = 32

// sideBySide calls all functions, some at once, and returns their errors in the same order. When ctx ends, no more are
// called, and the first of those has the error of ctx.
func sideBySide(ctx context.Context, all []func() error) []error {
	errs := make([]error, len(all))
	var ended sync.Once
	var g errgroup.Group
	g.SetLimit(maxSideBySide)
	for i, f := range all {
		g.Go(func() error {
			if ctx.Err() == nil {
				errs[i] = f()
			} else {
				ended.Do(func() { errs[i] = ctx.Err() })
			}
			return nil
		})
	}
	_ = g.Wait() // No function returns an error.
	return errs
}
