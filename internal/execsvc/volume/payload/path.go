package payload

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// The limits of paths, in bytes, as of the kernel: PATH_MAX and NAME_MAX.
const (
	maxPath = 4096
	maxName = 255
)

// CleanPath returns the path without what is superfluous in it ("./a//b" is "a/b"), or says why no file of a volume can have it: it
// leads out of the volume, is too long, or has one of the names beginning with ".." that are package atomicdir's.
func CleanPath(p string) (string, error) {
	clean := path.Clean(p)
	elements := strings.Split(p, "/")
	var why string
	switch {
	case p == "":
		return "", errors.New("a path must not be empty")
	case len(p) > maxPath:
		// The whole of it would fill an event.
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
