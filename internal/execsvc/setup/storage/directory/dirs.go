package directory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podstream/podstream/internal/openfile"
)

// dirMode is podman's mode of a named volume.
const dirMode = 0o755

// ErrMissing is the error of a directory that doesn't exist.
var ErrMissing = errors.New("the directory doesn't exist")

// Claim names a claim, and so its directory.
type Claim struct{ Namespace, Name string }

// String returns NAMESPACE/NAME.
func (c Claim) String() string { return c.Namespace + "/" + c.Name }

// Check returns an error if the names can't be those of a claim.
func (c Claim) Check() error {
	if len(validation.IsDNS1123Label(c.Namespace)) > 0 {
		return fmt.Errorf("%.100q isn't the name of a namespace", c.Namespace)
	}
	if len(validation.IsDNS1123Subdomain(c.Name)) > 0 {
		return fmt.Errorf("%.300q isn't the name of a claim", c.Name)
	}
	return nil
}

// Dirs are the directories of claims. It keeps nothing in memory.
type Dirs struct{ root string }

// New returns the directories below root, which is --volume-dir. It is created with the first one.
func New(root string) Dirs { return Dirs{root} }

// Path returns the claim's directory, for messages.
func (d Dirs) Path(c Claim) string { return filepath.Join(d.root, c.Namespace, c.Name) }

// Create creates the claim's directory, unless it exists. It is synced to disk.
func (d Dirs) Create(c Claim) error {
	if err := c.Check(); err != nil {
		return err
	}
	if err := os.MkdirAll(d.root, dirMode); err != nil {
		return fmt.Errorf("create --volume-dir: %w", err)
	}
	if err := makeDir(d.root, c.Namespace, dirMode); err != nil {
		return err
	}
	return makeDir(d.root, filepath.Join(c.Namespace, c.Name), dirMode)
}

// Open opens the claim's directory. ErrMissing: there is none.
func (d Dirs) Open(c Claim) (*os.File, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	dir, err := openfile.OpenDirBeneath(d.root, filepath.Join(c.Namespace, c.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", d.Path(c), ErrMissing)
	}
	return dir, err
}

// makeDir creates the directory base/name, with the mode in spite of the umask, unless it exists. Only its last element may
// be missing. No link is followed below base.
func makeDir(base, name string, mode uint32) error {
	path := filepath.Join(base, name)
	parent, err := openfile.OpenDirBeneath(base, filepath.Dir(name))
	if err != nil {
		return fmt.Errorf("create the directory %s: %w", path, err)
	}
	defer parent.Close()
	switch err := unix.Mkdirat(int(parent.Fd()), filepath.Base(name), mode); {
	case errors.Is(err, unix.EEXIST):
		dir, err := openfile.OpenDirBeneath(base, name)
		if err != nil {
			return fmt.Errorf("open the directory %s: %w", path, err)
		}
		return dir.Close()
	case err != nil:
		return fmt.Errorf("create the directory %s: %w", path, err)
	}
	dir, err := openfile.OpenDirBeneath(base, name)
	if err != nil {
		return fmt.Errorf("open the directory %s: %w", path, err)
	}
	defer dir.Close()
	return errors.Join(unix.Fchmod(int(dir.Fd()), mode), parent.Sync())
}
