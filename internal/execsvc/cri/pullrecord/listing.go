package pullrecord

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Listing is called before all images of the runtime are listed. The caller passes the list to done, if there is one.
// It removes the records of images that neither this list nor the one before it has, and settles the intents of
// interrupted pulls: an image that may be from one gets a record without credentials. Two listings are some time
// apart, and none begins before the last one is done. One list may lack images, for example while a runtime starts; so it
// alone removes nothing.
func (r *Records) Listing() (done func([]*runtimeapi.Image)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	mark := r.writes
	var interrupted []*Intent
	for i := range r.intents {
		if i.interrupted {
			interrupted = append(interrupted, i)
		}
	}
	return func(images []*runtimeapi.Image) {
		for _, i := range interrupted {
			if err := i.settle(images); err != nil {
				r.cfg.Logger.Warn("can't settle an interrupted image pull; retrying", "image", i.image, "error", err)
			}
		}
		if err := r.prune(images, mark); err != nil {
			r.cfg.Logger.Warn("can't remove the records of images that are gone; retrying", "error", err)
		}
		listed := map[string]bool{}
		for _, image := range images {
			listed[image.GetId()] = true
		}
		r.mu.Lock()
		r.listed = listed
		r.mu.Unlock()
		r.count()
	}
}

// settle records the images that an interrupted pull may have left, and ends the Intent. If none of them has its name, it
// ends at the second listing: some runtimes finish a pull whose caller is gone.
func (i *Intent) settle(images []*runtimeapi.Image) error {
	left := false
	for _, image := range images {
		if n := namesOf(image); i.concerns(image.GetId(), n) {
			left = left || slices.Contains(n.all, i.canonical)
			if err := i.records.add(image.GetId(), i.repository, n.in(i.repository), nil); err != nil {
				return err
			}
		}
	}
	i.records.mu.Lock()
	again := !left && !i.seen
	i.seen = true
	i.records.mu.Unlock()
	if again {
		return nil
	}
	return i.Failed()
}

// prune removes the records of images that are gone since the last listing, and haven't been pulled since mark.
func (r *Records) prune(images []*runtimeapi.Image, mark uint64) error {
	names, err := list(r.pulled)
	if err != nil {
		return err
	}
	present := map[string]bool{}
	for _, image := range images {
		present[fileName(image.GetId())] = true
	}
	absent := map[string]bool{}
	var errs []error
	for _, name := range names {
		switch {
		case present[name]:
		case !r.absent[name]:
			absent[name] = true
		default:
			gone, err := r.remove(name, mark)
			absent[name] = !gone
			errs = append(errs, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.absent = absent
	maps.DeleteFunc(r.written, func(_ string, at uint64) bool { return at <= mark })
	return errors.Join(errs...)
}

// remove removes a record, unless the image was pulled since mark. A record that can't be read stays: it isn't known of
// which image it is.
func (r *Records) remove(name string, mark uint64) (gone bool, err error) {
	path := filepath.Join(r.pulled, name)
	record, err := readRecordFile(path)
	if err != nil || record == nil || fileName(record.ImageRef) != name {
		return false, nil
	}
	defer r.lock(record.ImageRef)()
	r.mu.Lock()
	recent := r.written[name] > mark
	r.mu.Unlock()
	if recent {
		return false, nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, nil
}
