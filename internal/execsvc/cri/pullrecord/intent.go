package pullrecord

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
)

// maxIntents bounds the pulls whose outcome isn't known.
const maxIntents = 10_000

// Intent is a pull that is under way, or whose outcome isn't known. Exactly one of Pulled, Failed and Interrupted ends
// it.
type Intent struct {
	records *Records
	// image is the image in the pod's spec, repository and canonical are its full name without and with tag or digest.
	image, repository, canonical string
	// before is the ID of the image that had the name before the pull; empty: none, or it isn't known. The pull doesn't
	// concern that one.
	before string
	// listed has the IDs of the images that were there at the last listing before the pull. Nil: it isn't known.
	listed map[string]bool
	// interrupted is set when nothing more will be known from the pull, seen once a listing has begun after that.
	interrupted, seen bool
}

// Intend is part of image.Records: it records that an image is about to be pulled. before is the ID of the image that has the name now; empty: none.
func (r *Records) Intend(name, before string) (image.Intent, error) {
	repository, canonical, err := image.Canonical(name)
	if err != nil {
		return nil, err
	}
	i := &Intent{records: r, image: name, repository: repository, canonical: canonical, before: before}
	defer r.lock(name)()
	r.mu.Lock()
	full := len(r.intents) >= maxIntents
	if !full {
		i.listed = r.listed
		r.intents[i] = true
		if r.damaged[fileName(name)] {
			// The file is replaced: what was pulled before stays in memory, and with it the file.
			r.intents[&Intent{records: r, image: name, repository: repository, canonical: canonical, interrupted: true}] = true
			delete(r.damaged, fileName(name))
		}
	}
	r.mu.Unlock()
	if full {
		return nil, fmt.Errorf("%d earlier pulls have no known outcome", maxIntents)
	}
	err = writeFile(r.pulling, name, kubeletconfigv1beta1.ImagePullIntent{
		TypeMeta: metav1.TypeMeta{Kind: intentKind, APIVersion: kubeletconfigv1beta1.SchemeGroupVersion.String()}, Image: name,
	})
	if err != nil {
		return nil, errors.Join(err, i.end())
	}
	r.count()
	return i, nil
}

// Pulled records that the image was pulled with these logins, one for each pod that waited for it. If it can't be
// recorded, the Intent stays: the image counts as pulled, with credentials that aren't known.
func (i *Intent) Pulled(image *runtimeapi.Image, logins []imageaccess.Login) error {
	if err := i.records.add(image.GetId(), i.repository, namesOf(image).in(i.repository), logins); err != nil {
		i.Interrupted()
		return fmt.Errorf("record the pull of image %s: %w", image.GetId(), err)
	}
	return i.Failed()
}

// Failed records that the pull has ended and the node has no image from it that isn't recorded.
func (i *Intent) Failed() error {
	defer i.records.lock(i.image)()
	defer i.records.count()
	return i.end()
}

// Interrupted records that the outcome isn't known: the runtime may have the image, or get it soon.
func (i *Intent) Interrupted() {
	i.records.mu.Lock()
	defer i.records.mu.Unlock()
	i.interrupted, i.seen = true, false
}

// end removes the Intent, and the file if no other one has its image. The caller has locked the file.
func (i *Intent) end() error {
	r := i.records
	r.mu.Lock()
	delete(r.intents, i)
	shared := false
	for other := range r.intents {
		shared = shared || other.image == i.image
	}
	r.mu.Unlock()
	if shared {
		return nil
	}
	if err := os.Remove(filepath.Join(r.pulling, fileName(i.image))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the image pull intent: %w", err)
	}
	return nil
}

// concerns reports whether an image may be from the pull: it has the name; or it has only digests of the repository,
// because another pull has moved the tag; or it has no name yet, while the runtime adds it.
func (i *Intent) concerns(id string, n names) bool {
	switch {
	case i.before == id:
		return false
	case slices.Contains(n.all, i.canonical):
		return true
	default:
		return (len(n.all) == 0 || n.untagged[i.repository]) && !i.listed[id]
	}
}

// intended reports whether the image may be from a pull that isn't recorded yet, and whether from one of the repository
// in the pod's spec.
func (r *Records) intended(u imageaccess.Use) (intended, sameName bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.intents) == 0 {
		return false, false
	}
	n := parseNames(u.Names)
	for i := range r.intents {
		if i.concerns(u.ID, n) || i.canonical == u.Name && i.before != u.ID {
			intended, sameName = true, sameName || i.repository == u.Repository
		}
	}
	return intended, sameName
}

// readIntents reads the intents of pulls that were interrupted by the end of the process. Of a file that can't be used the
// name remains.
func (r *Records) readIntents() error {
	files, err := list(r.pulling)
	if err != nil {
		return err
	}
	for _, name := range files {
		var intent kubeletconfigv1beta1.ImagePullIntent
		path := filepath.Join(r.pulling, name)
		_, err := readFile(path, intentKind, &intent, func() (string, string) { return intent.APIVersion, intent.Kind })
		repository, canonical, wrong := image.Canonical(intent.Image)
		if err == nil && wrong == nil {
			r.intents[&Intent{records: r, image: intent.Image, repository: repository, canonical: canonical, interrupted: true}] = true
		}
		if err == nil && fileName(intent.Image) != name {
			err = fmt.Errorf("%w: its name isn't that of its image", errDamaged)
		}
		if err = cmp.Or(err, wrong); err != nil {
			r.cfg.Logger.Warn("an image pull intent can't be used; an image by its name must be pulled again", "file", path, "error", err)
			r.damaged[name] = true
		}
	}
	return nil
}

// damagedIntent returns the file of an intent that can't be used, if it may be of the image. Empty: there is none.
func (r *Records) damagedIntent(u imageaccess.Use) (path string) {
	r.mu.Lock()
	damaged := maps.Clone(r.damaged)
	r.mu.Unlock()
	if len(damaged) == 0 {
		return ""
	}
	given := []string{u.Given}
	for _, full := range append([]string{u.Name}, u.Names...) {
		given = append(given, spellings(full)...)
	}
	for _, name := range given {
		if damaged[fileName(name)] {
			return filepath.Join(r.pulling, fileName(name))
		}
	}
	return ""
}
