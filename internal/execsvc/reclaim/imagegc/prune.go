package imagegc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/image"
)

// ErrNotReady is the error of Prune while it isn't known what the node's pods require.
var ErrNotReady = errors.New("not all pods of this node are known yet")

// Pruning is what Prune removes.
type Pruning struct {
	// DryRun is set if nothing is removed.
	DryRun bool
	// All is set if images with tags are removed too.
	All bool
	// IDs restricts it to these images. Empty: no restriction.
	IDs []string
	// Max is how many images at most. Zero: no bound.
	Max int
	// Caller requests it, for the log.
	Caller string
}

// Pruned is the result of Prune.
type Pruned struct {
	// Images were removed, or would be.
	Images []*runtimeapi.Image
	// Failures are the images that weren't removed because of an error.
	Failures []PruneFailure
	// More is set if others weren't looked at, because of Max or as the runtime doesn't answer.
	More bool
}

// PruneFailure is an image that wasn't removed, and why.
type PruneFailure struct {
	Image *runtimeapi.Image
	Err   error
}

// Prune removes unused images, however young they are, at a caller's request. Besides those that are in use, images of a
// repository that is being pulled from stay: the pull may need their layers, or end with one of them. It returns an error if
// it can't be determined which images are unused; then nothing was removed. ErrNotReady: not all pods are known yet. When ctx
// ends, it returns what was removed so far.
func (c *Collector) Prune(ctx context.Context, p Pruning) (out Pruned, err error) {
	err = c.locked(ctx, func(ctx context.Context, now time.Time) error {
		if err := c.notReady(); err != nil {
			return err
		}
		r, err := c.begin(ctx, now, nil)
		if err != nil {
			return err
		}
		out = c.pruneAll(ctx, r, p)
		return nil
	})
	return out, err
}

// pruneAll removes the selected images, until ctx ends.
func (c *Collector) pruneAll(ctx context.Context, r *round, p Pruning) (out Pruned) {
	for _, i := range slices.Clone(r.unused) {
		if !p.selects(i.Image) {
			continue
		}
		if out.More = p.Max > 0 && len(out.Images)+len(out.Failures) == p.Max; out.More || ctx.Err() != nil {
			break
		}
		if gone, err := c.prune(ctx, r, i, p); err != nil {
			out.Failures = append(out.Failures, PruneFailure{i.Image, err})
			if isHung(err) {
				// Each further image would take as long, and garbage collection waits for the end.
				out.More = true
				break
			}
		} else if gone {
			out.Images = append(out.Images, i.Image)
		}
	}
	return out
}

// isHung reports whether the runtime hasn't answered in time, or has ended.
func isHung(err error) bool {
	code := grpcstatus.Code(err)
	return code == codes.DeadlineExceeded || code == codes.Unavailable || errors.Is(err, context.DeadlineExceeded)
}

// notReady returns an error while not all pods are known.
func (c *Collector) notReady() error {
	if c.cfg.SourcesReady() {
		return nil
	}
	if names := c.cfg.Unready(); len(names) > 0 {
		return fmt.Errorf("%w: not ready: %s", ErrNotReady, strings.Join(names, ", "))
	}
	return fmt.Errorf("%w: podconfigd hasn't sent its sources", ErrNotReady)
}

// selects reports whether an image is to be removed if it is unused.
func (p *Pruning) selects(i *runtimeapi.Image) bool {
	return (p.All || len(i.GetRepoTags()) == 0) && (len(p.IDs) == 0 || slices.Contains(p.IDs, i.GetId()))
}

// prune removes an image, unless it is required by now.
func (c *Collector) prune(ctx context.Context, r *round, i unusedImage, p Pruning) (gone bool, err error) {
	if err := c.notReady(); err != nil {
		return false, err
	}
	if unused, err := c.stillUnused(ctx, r, i); err != nil || !unused || isOfAny(i.Image, c.cfg.Pulling()) {
		return false, err
	}
	if p.DryRun {
		return true, nil
	}
	return true, c.removeUnused(ctx, r, i, "reason", "prune", "caller", p.Caller)
}

// isOfAny reports whether an image has a name in a repository of the names, or one whose repository isn't known.
func isOfAny(i *runtimeapi.Image, names []string) bool {
	if len(names) == 0 {
		return false
	}
	repositories := map[string]bool{}
	for _, name := range names {
		if repository, _, err := image.Canonical(name); err == nil {
			repositories[repository] = true
		}
	}
	return slices.ContainsFunc(slices.Concat(i.GetRepoTags(), i.GetRepoDigests()), func(name string) bool {
		repository, _, err := image.Canonical(name)
		return err != nil || repositories[repository]
	})
}
