package imagegc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/image"
)

// record is kept of an image from round to round.
type record struct {
	// detected is when the image was first seen; zero if it existed at the start. lastUsed is when it was last in
	// use; zero means never.
	detected, lastUsed time.Time
}

// unusedImage is an image that no container and no pod uses.
type unusedImage struct {
	record
	*runtimeapi.Image
}

// round is one listing of the images.
type round struct {
	at time.Time
	// unused are the unused images, in the order of removal.
	unused   []unusedImage
	required *requiredImages
}

// begin lists the images and determines which are in use. listing is Config.Listing, or nil.
func (c *Collector) begin(ctx context.Context, now time.Time, listing func() func([]*runtimeapi.Image)) (*round, error) {
	listed := func([]*runtimeapi.Image) {}
	if listing != nil {
		listed = listing()
	}
	images, err := c.cfg.Images.ListImages(ctx, nil)
	if err != nil {
		return nil, &listError{"images", err}
	}
	listed(images)
	containers, err := c.cfg.Containers.ListContainers(ctx, nil)
	if err != nil {
		return nil, &listError{"containers", err}
	}
	r := &round{at: now, required: &requiredImages{images: c.cfg.Images, given: map[string]bool{}, names: map[string]bool{}, ids: map[string]bool{}}}
	if err := c.updateRequired(ctx, r); err != nil {
		return nil, err
	}
	used := usedBy(containers)
	before, known, lastUsed := c.records, map[string]record{}, map[string]time.Time{}
	for _, image := range images {
		rec, seen := before[image.GetId()]
		if !seen && before != nil {
			rec.detected = now
		}
		switch {
		case isUsed(image, used), r.required.has(image):
			rec.lastUsed = now
		case !image.GetPinned():
			r.unused = append(r.unused, unusedImage{rec, image})
		}
		known[image.GetId()] = rec
		if !rec.lastUsed.IsZero() {
			lastUsed[image.GetId()] = rec.lastUsed
		}
	}
	c.records = known
	c.lastUsed.Store(&lastUsed)
	slices.SortFunc(r.unused, func(a, b unusedImage) int {
		return cmp.Or(a.lastUsed.Compare(b.lastUsed), a.detected.Compare(b.detected), cmp.Compare(a.GetId(), b.GetId()))
	})
	return r, nil
}

// usedBy returns the images of the containers. Runtimes report them under different names.
func usedBy(containers []*runtimeapi.Container) map[string]bool {
	used := map[string]bool{}
	for _, c := range containers {
		for _, name := range []string{c.GetImageId(), c.GetImageRef(), c.GetImage().GetImage()} {
			used[name] = name != ""
		}
	}
	return used
}

func isUsed(image *runtimeapi.Image, used map[string]bool) bool {
	names := slices.Concat([]string{image.GetId()}, image.GetRepoTags(), image.GetRepoDigests())
	return slices.ContainsFunc(names, func(name string) bool { return used[name] })
}

// freeOld removes the images unused for longer than MaxAge.
func (c *Collector) freeOld(ctx context.Context, r *round) error {
	if c.cfg.MaxAge == 0 || r.at.Sub(c.started) <= c.cfg.MaxAge {
		return nil
	}
	var errs []error
	for _, image := range slices.Clone(r.unused) {
		// An image that was never used ages from its detection.
		since := image.lastUsed
		if image.detected.After(since) {
			since = image.detected
		}
		if r.at.Sub(since) > c.cfg.MaxAge {
			_, err := c.remove(ctx, r, image, "age")
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// free removes images until so many bytes are freed, and returns the number. An image that can't be removed doesn't
// keep the others from being removed.
func (c *Collector) free(ctx context.Context, r *round, bytes int64) (freed int64, err error) {
	var errs []error
	for _, image := range slices.Clone(r.unused) {
		if freed >= bytes || ctx.Err() != nil {
			break
		}
		if r.at.Sub(image.detected) < c.cfg.MinAge {
			continue
		}
		gone, err := c.remove(ctx, r, image, "space")
		if err != nil {
			errs = append(errs, err)
		} else if gone {
			freed += bounded(image.GetSize())
		}
	}
	return freed, errors.Join(errs...)
}

// remove removes the image, unless a pod requires it by now or not all pods are known yet.
func (c *Collector) remove(ctx context.Context, r *round, image unusedImage, reason string) (gone bool, err error) {
	if r.at.Sub(c.started) < period && !c.cfg.SourcesReady() {
		return false, nil
	}
	if unused, err := c.stillUnused(ctx, r, image); err != nil || !unused {
		return false, err
	}
	if err := c.removeUnused(ctx, r, image, "reason", reason); err != nil {
		return false, err
	}
	c.removed.WithLabelValues(reason).Inc()
	return true, nil
}

// updateRequired determines again which images pods and pulls require.
func (c *Collector) updateRequired(ctx context.Context, r *round) error {
	names, err := c.cfg.RequiredImages(ctx)
	if err != nil {
		return fmt.Errorf("determine which images are required: %w", err)
	}
	return r.required.update(ctx, slices.Concat(names, c.cfg.Pulling()))
}

// stillUnused reports whether no pod and no pull requires the image by now.
func (c *Collector) stillUnused(ctx context.Context, r *round, image unusedImage) (bool, error) {
	if err := c.updateRequired(ctx, r); err != nil {
		return false, err
	}
	if r.required.has(image.Image) {
		c.records[image.GetId()] = record{detected: image.detected, lastUsed: r.at}
		return false, nil
	}
	return true, nil
}

// removeUnused removes an image that stillUnused has just found unused. why is for the log.
func (c *Collector) removeUnused(ctx context.Context, r *round, image unusedImage, why ...any) error {
	id := image.GetId()
	spec := &runtimeapi.ImageSpec{Image: id, RuntimeHandler: image.GetSpec().GetRuntimeHandler()}
	if err := c.cfg.Images.RemoveImage(ctx, spec); err != nil {
		return fmt.Errorf("remove image %s: %w", id, err)
	}
	c.log.Info("removed an unused image", append([]any{"image", id, "tags", image.GetRepoTags(), "bytes", image.GetSize()}, why...)...)
	delete(c.records, id)
	r.unused = slices.DeleteFunc(r.unused, func(i unusedImage) bool { return i.GetId() == id })
	return nil
}

// requiredImages are the images that pods require.
type requiredImages struct {
	images Images
	// given are all names with their registries, and the IDs among them. names are the resolved ones, as they are in pods'
	// specs, and ids the IDs of their images.
	given, names, ids map[string]bool
}

// has reports whether a pod requires the image: by what the runtime has returned for a name, or as the image has that name
// itself. A runtime whose images aren't loaded yet may list one and not find it by its name.
func (n *requiredImages) has(i *runtimeapi.Image) bool {
	if n.ids[i.GetId()] || n.given[i.GetId()] {
		return true
	}
	return slices.ContainsFunc(slices.Concat(i.GetRepoTags(), i.GetRepoDigests()), func(name string) bool { return n.given[name] })
}

// update resolves new names. A name without an image is resolved again each time: a pull may give it to an image that
// the node has already.
func (n *requiredImages) update(ctx context.Context, names []string) error {
	for _, name := range names {
		if n.names[name] {
			continue
		}
		if _, full, err := image.Canonical(name); err == nil {
			n.given[full] = true
		} else {
			// It may be an ID without its prefix.
			n.given["sha256:"+name] = true
		}
		resp, err := n.images.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: name}, false)
		// An invalid name has no image.
		if err != nil && grpcstatus.Code(err) != codes.InvalidArgument {
			return fmt.Errorf("get the status of image %q, which a pod requires: %w", name, err)
		}
		if found := resp.GetImage(); found != nil {
			n.names[name] = true
			n.ids[found.GetId()] = true
		}
	}
	return nil
}

// listError is the runtime's error when images or containers are listed.
type listError struct {
	what string
	err  error
}

func (e *listError) Error() string { return fmt.Sprintf("list %s: %v", e.what, e.err) }

func (e *listError) Unwrap() error { return e.err }
