package mounttable

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/moby/sys/mountinfo"
	utilio "k8s.io/utils/io"

	"github.com/podstream/podstream/internal/kernelversion"
)

// Path is the table of this process.
const Path = "/proc/self/mountinfo"

// Mount is one mount.
type Mount struct {
	// Parent is the ID of the mount that it is mounted on.
	ID, Parent   int
	Major, Minor int
	// Root is the path within the file system that is mounted, and Point where it is.
	Root, Point  string
	Type, Source string
	// Options are those of the mount, and FSOptions those of its file system.
	Options, FSOptions []string
}

// Read returns the mounts that this process sees, in the order of mounting.
func Read() ([]Mount, error) { return ReadFile(Path) }

// ReadFile returns the mounts of a file with a table.
func ReadFile(path string) ([]Mount, error) {
	content, err := content(path)
	if err != nil {
		return nil, fmt.Errorf("read the mounts: %w", err)
	}
	infos, err := mountinfo.GetMountsFromReader(bytes.NewReader(content), nil)
	if err != nil {
		return nil, fmt.Errorf("read the mounts: %w", err)
	}
	mounts := make([]Mount, 0, len(infos))
	for _, i := range infos {
		mounts = append(mounts, Mount{
			ID: i.ID, Parent: i.Parent, Major: i.Major, Minor: i.Minor, Root: i.Root, Point: i.Mountpoint, Type: i.FSType, Source: i.Source,
			Options: options(i.Options), FSOptions: options(i.VFSOptions),
		})
	}
	return mounts, nil
}

// options returns the elements of a list. A quoted value, such as an SELinux context, may have commas.
func options(list string) []string {
	quoted := false
	return strings.FieldsFunc(list, func(r rune) bool {
		quoted = quoted != (r == '"')
		return r == ',' && !quoted
	})
}

// maxReads bounds the readings until two are equal.
const maxReads = 10

// content returns the table as a whole. Linux before 5.8 may leave out a mount if another one is unmounted meanwhile.
func content(path string) ([]byte, error) {
	if kernelversion.Before(5, 8) {
		return utilio.ConsistentRead(path, maxReads)
	}
	return os.ReadFile(path)
}
