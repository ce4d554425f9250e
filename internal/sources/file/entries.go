package file

import (
	"slices"
	"strings"
	"time"

	"github.com/podstream/podstream/internal/manifest"
)

// maxIgnored is how many files that aren't manifests get a finding, the first ones by path, so that a directory full
// of other files doesn't hide the findings that matter.
const maxIgnored = 100

// racyWindow is how old a file must be when it is read for its times to distinguish it from a later version: file
// systems round them, some to 2 s.
const racyWindow = 2 * time.Second

// entry is one file as it was last read.
type entry struct {
	path   string
	origin *manifest.Origin
	// ignored: the file isn't a manifest by its name; only origin counts.
	ignored bool
	print   fingerprint
	stamp   stamp
	// racy: the file was so young that stamp might not distinguish it from a later version.
	racy bool
}

// current reports whether the file, now at version s, needn't be read again.
func (e *entry) current(s stamp) bool {
	return !e.racy && e.print.problem == "" && e.stamp.equal(s)
}

// entries are sorted by path.
type entries []*entry

func (es entries) search(path string) (int, bool) {
	return slices.BinarySearchFunc(es, path, func(e *entry, path string) int { return strings.Compare(e.path, path) })
}

// get returns nil if there is no such entry.
func (es entries) get(path string) *entry {
	if i, ok := es.search(path); ok {
		return es[i]
	}
	return nil
}

// put replaces the entry of the same path, or adds one.
func (es *entries) put(e *entry) {
	i, ok := es.search(e.path)
	if ok {
		(*es)[i] = e
		return
	}
	*es = slices.Insert(*es, i, e)
}

// drop removes an entry and returns it, or nil if there was none.
func (es *entries) drop(path string) *entry {
	i, ok := es.search(path)
	if !ok {
		return nil
	}
	e := (*es)[i]
	*es = slices.Delete(*es, i, i+1)
	return e
}

// origins returns the origins of a Set: a new slice of the same pointers.
func (es entries) origins() []*manifest.Origin {
	origins := make([]*manifest.Origin, 0, len(es))
	ignored := 0
	for _, e := range es {
		if e.ignored {
			if ignored++; ignored > maxIgnored {
				continue
			}
		}
		origins = append(origins, e.origin)
	}
	return origins
}
