package tree

import (
	"archive/tar"
	"fmt"
	"path"
	"strings"
)

// The bounds of names in an archive. An element's is Linux's. A path can be longer than the kernel takes at once: a process can
// make it step by step, and so do Export and Import.
const maxName, maxElement = maxDepth * (maxElement + 1), 255

// refusal is the error of an archive that isn't imported because of an entry.
func refusal(name, format string, args ...any) error {
	return &RefusedError{fmt.Sprintf("the archive's entry %.200q %s", name, fmt.Sprintf(format, args...))}
}

// RefusedError is the error of an archive that isn't imported.
type RefusedError struct{ Text string }

func (r *RefusedError) Error() string { return r.Text }

// cleanName returns the name of an entry below the directory; ".": it is the directory itself.
func cleanName(name string) (string, error) {
	switch {
	case name == "" || len(name) > maxName:
		return "", refusal(name, "has a name of %d bytes; at most are %d", len(name), maxName)
	case strings.Contains(name, "\x00"):
		return "", refusal(name, "has a name with a NUL")
	case path.IsAbs(name):
		return "", refusal(name, "has an absolute name")
	}
	depth := 0
	for element := range strings.SplitSeq(name, "/") {
		switch {
		case element == "..":
			return "", refusal(name, `has ".." in its name`)
		case len(element) > maxElement:
			return "", refusal(name, "has a name with an element of %d bytes; at most are %d", len(element), maxElement)
		case element != "" && element != ".":
			depth++
		}
	}
	if depth > maxDepth {
		return "", refusal(name, "is %d levels deep; at most are %d", depth, maxDepth)
	}
	return path.Clean(name), nil
}

// checkKind returns an error for an entry of a kind that isn't imported.
func checkKind(h *tar.Header) error {
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink:
		return nil
	case tar.TypeChar, tar.TypeBlock:
		return refusal(h.Name, "is a device")
	case tar.TypeFifo:
		return refusal(h.Name, "is a FIFO")
	default:
		return refusal(h.Name, "is of a kind that isn't known, %q", h.Typeflag)
	}
}

// elements returns the elements of a clean name.
func elements(name string) []string { return strings.Split(name, "/") }
