package payload

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// The kernel's limits of paths, in bytes: PATH_MAX and NAME_MAX.
const (
	maxPath = 4096
	maxName = 255
)

// CleanPath returns the cleaned path ("./a//b" is "a/b"), or an error if a volume can't have such a file: the path
// leads out of the volume, is too long, or has a name beginning with "..", which are reserved for package atomicdir.
func CleanPath(p string) (string, error) {
	clean := path.Clean(p)
	elements := strings.Split(p, "/")
	var why string
	switch {
	case p == "":
		return "", errors.New("a path must not be empty")
	case len(p) > maxPath:
		// The whole path would fill an event.
		return "", fmt.Errorf("path %q… must have %d bytes at most", p[:maxName], maxPath)
	case path.IsAbs(p):
		why = "must be relative"
	case slices.Contains(elements, ".."):
		why = `must not contain ".."`
	case strings.HasPrefix(clean, ".."):
		why = `must not begin with ".."`
	case clean == ".":
		why = "must name a file"
	case strings.Contains(p, "\x00"):
		why = "must not contain a zero byte"
	case slices.ContainsFunc(elements, func(e string) bool { return len(e) > maxName }):
		why = fmt.Sprintf("must have names of %d bytes at most", maxName)
	default:
		return clean, nil
	}
	return "", fmt.Errorf("path %q %s", p, why)
}
