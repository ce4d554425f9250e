package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The bounds of names. Linux has the first two, too.
const (
	maxName    = 4095
	maxElement = 255
	// maxDepth bounds the directories that are open at once.
	maxDepth = 256
)

// Limits bound what Unpack takes.
type Limits struct {
	// MaxEntries is the maximum number of entries, and MaxBytes of the sum of their sizes. An entry whose size isn't
	// known counts as too large.
	MaxEntries int
	MaxBytes   int64
}

// check is one of the verifier's.
type check int

const (
	checkAbsolute check = iota
	checkDotDot
	checkClean
	checkLength
	checkControl
	checkName
	checkKind
	checkEntries
	checkBytes
	checkMode
)

// entry is an entry that may be written.
type entry struct {
	// path are the elements of its name below the name that was asked for. Empty: it is what was asked for.
	path []string
	dir  bool
	mode fs.FileMode
	size int64
	// header is what the archive has.
	header *tar.Header
}

// verifier decides about the entries of one archive, in their order.
type verifier struct {
	// name is the first element of each entry's name. ".": the names begin below it.
	name   string
	limits Limits
	// off are checks that don't take place. Only tests set it, to show that an attack succeeds then.
	off map[check]bool

	entries int
	bytes   int64
	// started is set from the first entry.
	started bool
	// single is set if the archive has just a file, and not a directory with what is below it.
	single bool
}

// errNoEntry is returned for a part of the archive that describes all others.
var errNoEntry = errors.New("no entry")

// skipped is an entry that isn't written, while others may be.
type skipped struct{ name, reason string }

func (s *skipped) Error() string { return fmt.Sprintf("%q %s", s.name, s.reason) }

// refusal is why an archive isn't read any further.
func refusal(name, format string, args ...any) error {
	return fmt.Errorf("the archive's entry %.200q %s", name, fmt.Sprintf(format, args...))
}

// verify returns the entry of a header, a *skipped, or the reason to read no further.
func (v *verifier) verify(h *tar.Header) (entry, error) {
	v.entries++
	if v.entries > v.limits.MaxEntries && !v.off[checkEntries] {
		return entry{}, fmt.Errorf("the archive has more than %d entries (--max-entries)", v.limits.MaxEntries)
	}
	if h.Typeflag == tar.TypeXGlobalHeader {
		return entry{}, errNoEntry
	}
	path, err := v.path(h.Name)
	if err != nil {
		return entry{}, err
	}
	if err := v.order(h, path); err != nil {
		return entry{}, err
	}
	if kind := kindOf(h.Typeflag); kind != "" && !v.off[checkKind] {
		return entry{}, &skipped{h.Name, "is " + kind}
	}
	if (h.Size < 0 || h.Size > v.limits.MaxBytes-v.bytes) && !v.off[checkBytes] {
		return entry{}, refusal(h.Name, "has %d bytes; with it the archive has more than %d bytes (--max-bytes)", h.Size, v.limits.MaxBytes)
	}
	v.bytes += h.Size
	e := entry{path: path, dir: h.Typeflag == tar.TypeDir, size: h.Size, header: h, mode: h.FileInfo().Mode() & fs.ModePerm}
	if v.off[checkMode] {
		e.mode = h.FileInfo().Mode() &^ fs.ModeType
	}
	return e, nil
}

// order checks that the archive has just the file that was asked for, or the directory and then what is below it.
func (v *verifier) order(h *tar.Header, path []string) error {
	first, isDir := !v.started, h.Typeflag == tar.TypeDir
	v.started = true
	single := v.single
	if first {
		v.single = !isDir
	}
	switch {
	case v.off[checkName]:
		return nil
	case first && len(path) > 0:
		return refusal(h.Name, "comes before %q, which was asked for", v.name)
	case single:
		return refusal(h.Name, "comes after the file %q, which is all that was asked for", v.name)
	case !first && len(path) == 0 && !isDir:
		return refusal(h.Name, "comes after the directory of that name")
	}
	return nil
}

// path returns the elements of a name below the one that was asked for.
func (v *verifier) path(name string) ([]string, error) {
	if err := v.checkText(name); err != nil {
		return nil, err
	}
	if strings.HasPrefix(name, "/") && !v.off[checkAbsolute] {
		return nil, refusal(name, "has an absolute name")
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "./"), "/")
	var elements []string
	if name != "" && name != "." {
		elements = strings.Split(name, "/")
	}
	for _, element := range elements {
		switch {
		case element == ".." && !v.off[checkDotDot]:
			return nil, refusal(name, `leads out of its directory by ".."`)
		case (element == "" || element == ".") && !v.off[checkClean]:
			return nil, refusal(name, "has an element that is empty or %q", ".")
		}
	}
	if v.name == "." {
		return elements, nil
	}
	if len(elements) > 0 && elements[0] == v.name {
		return elements[1:], nil
	}
	if !v.off[checkName] {
		return nil, refusal(name, "isn't below %q, which was asked for", v.name)
	}
	return elements, nil
}

// checkText checks a name without its meaning.
func (v *verifier) checkText(name string) error {
	if strings.ContainsFunc(name, unsafe) && !v.off[checkControl] || !utf8.ValidString(name) && !v.off[checkControl] {
		return refusal(name, "has a name with control characters, or that isn't UTF-8")
	}
	if v.off[checkLength] {
		return nil
	}
	if len(name) > maxName || strings.Count(name, "/") > maxDepth {
		return refusal(name, "has a name of %d bytes with %d slashes; at most are %d and %d", len(name), strings.Count(name, "/"), maxName, maxDepth)
	}
	for element := range strings.SplitSeq(name, "/") {
		if len(element) > maxElement {
			return refusal(name, "has a name with an element of %d bytes; at most are %d", len(element), maxElement)
		}
	}
	return nil
}

// unsafe reports whether a terminal may act on a character, or show others in another order.
func unsafe(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// kindOf describes an entry that is neither a regular file nor a directory, or returns "".
func kindOf(flag byte) string {
	switch flag {
	case tar.TypeReg, tar.TypeDir:
		return ""
	case tar.TypeSymlink:
		return "a symbolic link"
	case tar.TypeLink:
		return "a hard link, or a file with several names"
	case tar.TypeChar, tar.TypeBlock:
		return "a device"
	case tar.TypeFifo:
		return "a FIFO"
	default:
		return fmt.Sprintf("of a kind that isn't known, %q", flag)
	}
}

// isSkipped reports whether err is about one entry only.
func isSkipped(err error) bool {
	_, ok := errors.AsType[*skipped](err)
	return ok
}
