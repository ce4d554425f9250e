package pin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"github.com/podstream/podstream/internal/durable"
	"github.com/podstream/podstream/internal/openfile"
	"github.com/podstream/podstream/internal/sources/oci/signature"
)

const (
	pinFile, newestFile, blobsDir = "pin.json", "newest.json", "blobs"
	// maxFile bounds pin.json, which has a signature, and newest.json.
	maxFile = 1 << 20
	// MaxBlob bounds a part, in bytes.
	MaxBlob = 16 << 20
)

// errDamaged is wrapped by the error of a file or part that isn't what was stored.
var errDamaged = errors.New("it is damaged")

// digestForm is the form of a digest.
var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Pin names the accepted artifact.
type Pin struct {
	// Reference is the tag or digest for which it was accepted, and Digest its own.
	Reference string `json:"reference"`
	Digest    string `json:"digest"`
	// Evidence is the signature by which it was accepted. Nil: no key was configured.
	Evidence *signature.Evidence `json:"evidence,omitempty"`
	// Time is when it was accepted, by this machine's clock.
	Time time.Time `json:"time"`
}

// Newest is the artifact with the latest time of creation that was accepted.
type Newest struct {
	// Reference is the tag for which it was accepted, and Digest its digest.
	Reference string    `json:"reference"`
	Digest    string    `json:"digest"`
	Created   time.Time `json:"created"`
}

// Store is the directory of one source. Make it with New.
type Store struct{ dir string }

// New returns the store in a directory, which is made when something is stored.
func New(dir string) *Store { return &Store{dir} }

// Load returns the pin; nil: there is none.
func (s *Store) Load() (*Pin, error) {
	var p Pin
	found, err := s.read(pinFile, &p)
	if err == nil && found && !digestForm.MatchString(p.Digest) {
		err = fmt.Errorf("%s: %w", filepath.Join(s.dir, pinFile), errDamaged)
	}
	if err != nil || !found {
		return nil, err
	}
	return &p, nil
}

// Newest returns the newest artifact that was accepted; nil: it isn't known.
func (s *Store) Newest() (*Newest, error) {
	var n Newest
	found, err := s.read(newestFile, &n)
	if err == nil && found && (n.Reference == "" || n.Created.IsZero() || !digestForm.MatchString(n.Digest)) {
		err = fmt.Errorf("%s: %w", filepath.Join(s.dir, newestFile), errDamaged)
	}
	if err != nil || !found {
		return nil, err
	}
	return &n, nil
}

// SetNewest stores the newest artifact.
func (s *Store) SetNewest(n Newest) error {
	if err := s.make(s.dir); err != nil {
		return err
	}
	return s.write(newestFile, n)
}

func (s *Store) read(name string, into any) (found bool, err error) {
	data, err := s.open(name, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if json.Unmarshal(data, into) != nil {
		return false, fmt.Errorf("%s: %w", filepath.Join(s.dir, name), errDamaged)
	}
	return true, nil
}

func (s *Store) open(name string, limit int64) ([]byte, error) {
	f, err := openfile.OpenBeneath(s.dir, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return openfile.ReadAll(context.Background(), f, limit)
}

// Blob returns the part with a digest.
func (s *Store) Blob(digest string) ([]byte, error) {
	if !digestForm.MatchString(digest) {
		return nil, fmt.Errorf("part %q: %w", digest, errDamaged)
	}
	data, err := s.open(filepath.Join(blobsDir, fileOf(digest)), MaxBlob)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); "sha256:"+hex.EncodeToString(sum[:]) != digest {
		return nil, fmt.Errorf("%s: %w", filepath.Join(s.dir, blobsDir, fileOf(digest)), errDamaged)
	}
	return data, nil
}

func fileOf(digest string) string { return strings.Replace(digest, ":", "-", 1) }

// Save stores an artifact with its parts, by their digests, in place of the one before. After an error none is stored: the
// one before is out of date.
func (s *Store) Save(p Pin, parts map[string][]byte) error {
	if err := s.replace(p, parts); err != nil {
		if left := s.unpin(); left != nil {
			err = errors.Join(err, fmt.Errorf("and the artifact before stays stored: %w", left))
		}
		return err
	}
	return s.clean(parts)
}

// replace writes the parts, and then the pin.
func (s *Store) replace(p Pin, parts map[string][]byte) error {
	blobs := filepath.Join(s.dir, blobsDir)
	if err := s.make(s.dir, blobs); err != nil {
		return err
	}
	written := false
	for _, digest := range slices.Sorted(maps.Keys(parts)) {
		if _, err := s.Blob(digest); err == nil {
			continue
		}
		written = true
		if err := writeFile(filepath.Join(blobs, fileOf(digest)), parts[digest]); err != nil {
			return err
		}
	}
	if written {
		if err := durable.SyncDir(blobs); err != nil {
			return err
		}
	}
	return s.write(pinFile, p)
}

// unpin removes the pin, if there is one. That takes no room on the disk.
func (s *Store) unpin() error {
	switch err := os.Remove(filepath.Join(s.dir, pinFile)); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil
	case err != nil:
		return err
	}
	return durable.SyncDir(s.dir)
}

// SetPin stores what is known of the stored artifact in addition, such as another signature.
func (s *Store) SetPin(p Pin) error { return s.write(pinFile, p) }

// clean removes all parts but those of the current artifact, and what an interrupted writer left.
func (s *Store) clean(parts map[string][]byte) error {
	entries, err := os.ReadDir(filepath.Join(s.dir, blobsDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		_, hex, _ := strings.Cut(e.Name(), "-")
		if _, ok := parts["sha256:"+hex]; ok && e.Name() == fileOf("sha256:"+hex) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(s.dir, blobsDir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// make makes directories, one in the other, durably. The first one is beneath podconfigd's own, and all sources' are in
// that.
func (s *Store) make(dirs ...string) error {
	for _, dir := range append([]string{filepath.Dir(s.dir)}, dirs...) {
		err := os.Mkdir(dir, 0o700)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = durable.SyncDir(filepath.Dir(dir))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) write(name string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(s.dir, name), append(data, '\n')); err != nil {
		return err
	}
	return durable.SyncDir(s.dir)
}

// writeFile replaces a file. The caller makes the rename durable.
func writeFile(path string, data []byte) error {
	// Not in /tmp, which renameio prefers: the content may be secret.
	return renameio.WriteFile(path, data, 0o600, renameio.IgnoreUmask(), renameio.WithTempDir(filepath.Dir(path)))
}
