package claimvolumes

import (
	"context"
	"errors"
	"time"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/tree"
)

// Run removes what is left of an earlier podexecd, and the contents that imports replace, until ctx ends. What fails is repeated
// by the next start.
func (v *Volumes) Run(ctx context.Context) {
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			if !v.sweep(ctx) {
				again.Reset(v.again)
			}
		case as := <-v.replaced:
			_ = v.drop(ctx, as) // It has logged it.
		}
	}
}

// sweep removes what is left of an earlier podexecd. done is false while a helper of that one may still work on it.
func (v *Volumes) sweep(ctx context.Context) (done bool) {
	ctx, cancel := context.WithTimeout(ctx, removeLimit)
	defer cancel()
	_, err := v.cfg.Helpers.Do(ctx, v.cfg.Root, foreign.Job{Sweep: &tree.Sweep{Root: v.cfg.Root, Keep: v.start}})
	if _, busy := errors.AsType[*foreign.BusyError](err); busy {
		return false
	}
	if err != nil && ctx.Err() == nil {
		v.cfg.Log.Warn("parts of removed volumes are left; the next start of podexecd removes them", "dir", v.cfg.Root, "error", err)
	}
	return true
}

// drop removes what an operation has left under a name of its own, if anything.
func (v *Volumes) drop(ctx context.Context, as string) error {
	ctx, cancel := context.WithTimeout(ctx, removeLimit)
	defer cancel()
	_, err := v.cfg.Helpers.Do(ctx, v.cfg.Root, foreign.Job{Sweep: &tree.Sweep{Root: v.cfg.Root, Only: as}})
	if err != nil {
		v.cfg.Log.Warn("a part of a volume that was removed or imported is left; the next start of podexecd removes it", "dir", v.cfg.Root, "error", err)
	}
	return err
}
