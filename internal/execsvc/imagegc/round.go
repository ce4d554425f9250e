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
)

// record is what is remembered of an image from round to round.
type record struct {
	// came is when it was first seen; zero if it was there at the start. used is when it was last seen in use; zero: never.
	came, used time.Time
}

// unused is an image that nobody uses.
type unused struct {
	record
	*runtimeapi.Image
}

// round is one look at the images.
type round struct {
	at time.Time
	// images are those that nobody uses, in the order in which they go.
	images []unused
	needed *needs
}

// begin finds out which images there are and which of them are used.
func (c *Collector) begin(ctx context.Context, now time.Time) (*round, error) {
	images, err := c.cfg.Images.ListImages(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	containers, err := c.cfg.Containers.ListContainers(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	r := &round{at: now, needed: &needs{images: c.cfg.Images, names: map[string]bool{}, ids: map[string]bool{}}}
	if err := r.needed.update(ctx, c.cfg.Needed()); err != nil {
		return nil, err
	}
	used := usedBy(containers)
	before, known := c.known, map[string]record{}
	for _, image := range images {
		rec, seen := before[image.GetId()]
		if !seen && before != nil {
			rec.came = now
		}
		switch {
		case isUsed(image, used), r.needed.ids[image.GetId()]:
			rec.used = now
		case !image.GetPinned():
			r.images = append(r.images, unused{rec, image})
		}
		known[image.GetId()] = rec
	}
	c.known = known
	slices.SortFunc(r.images, func(a, b unused) int {
		return cmp.Or(a.used.Compare(b.used), a.came.Compare(b.came), cmp.Compare(a.GetId(), b.GetId()))
	})
	return r, nil
}

// usedBy are the images that containers were made of. Runtimes differ in what they call them by.
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

// freeOld removes what hasn't been used for longer than the maximum age.
func (c *Collector) freeOld(ctx context.Context, r *round) error {
	if c.cfg.MaxAge == 0 || r.at.Sub(c.begun) <= c.cfg.MaxAge {
		return nil
	}
	var errs []error
	for _, image := range slices.Clone(r.images) {
		// One that came without being used is as old as that, and not as the world.
		since := image.used
		if image.came.After(since) {
			since = image.came
		}
		if r.at.Sub(since) > c.cfg.MaxAge {
			_, err := c.remove(ctx, r, image, "age")
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// free removes images until so many bytes are freed, and tells how many were. What can't be removed doesn't keep the rest from being removed.
func (c *Collector) free(ctx context.Context, r *round, bytes int64) (freed int64, err error) {
	var errs []error
	for _, image := range slices.Clone(r.images) {
		if freed >= bytes || ctx.Err() != nil {
			break
		}
		if r.at.Sub(image.came) < c.cfg.MinAge {
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

// remove removes the image, unless somebody has come to need it or all pods aren't known yet.
func (c *Collector) remove(ctx context.Context, r *round, image unused, reason string) (gone bool, err error) {
	if r.at.Sub(c.begun) < period && !c.cfg.Settled() {
		return false, nil
	}
	if err := r.needed.update(ctx, c.cfg.Needed()); err != nil {
		return false, err
	}
	id := image.GetId()
	if r.needed.ids[id] {
		c.known[id] = record{came: image.came, used: r.at}
		return false, nil
	}
	spec := &runtimeapi.ImageSpec{Image: id, RuntimeHandler: image.GetSpec().GetRuntimeHandler()}
	if err := c.cfg.Images.RemoveImage(ctx, spec); err != nil {
		return false, fmt.Errorf("remove image %s: %w", id, err)
	}
	c.log.Info("removed an image that nobody uses", "image", id, "tags", image.GetRepoTags(), "bytes", image.GetSize(), "for", reason)
	c.removed.WithLabelValues(reason).Inc()
	delete(c.known, id)
	r.images = slices.DeleteFunc(r.images, func(i unused) bool { return i.GetId() == id })
	return true, nil
}

// needs are the images that pods need.
type needs struct {
	images Images
	// names are those of which there is an image, ids those images.
	names, ids map[string]bool
}

// update asks for names that weren't known. One of which there was no image is asked for again: a pull may make it the name of an image that is
// here by another one.
func (n *needs) update(ctx context.Context, names []string) error {
	for _, name := range names {
		if n.names[name] {
			continue
		}
		resp, err := n.images.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: name}, false)
		// What is no name at all no image has.
		if err != nil && grpcstatus.Code(err) != codes.InvalidArgument {
			return fmt.Errorf("look for image %q, which a pod needs: %w", name, err)
		}
		if image := resp.GetImage(); image != nil {
			n.names[name] = true
			n.ids[image.GetId()] = true
		}
	}
	return nil
}
