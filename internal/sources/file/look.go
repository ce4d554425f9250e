package file

import (
	"crypto/sha256"
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/podstream/podstream/internal/manifest"
)

var errBeingWritten = errors.New("is still being written; it will be read when it is complete")

// wait is a file that is to be looked at later: it may be incomplete, or gone.
type wait struct {
	// due is when to look.
	due time.Time
	// since is when the waiting began.
	since time.Time
	// newName is what the file was renamed to, as far as is known. While that one is waited for, so is this one, so that
	// both change in one Set.
	newName string
	// unwritten: the name was created, and nothing was heard since.
	unwritten bool
}

// await puts off the look at a file for a quiet period, or less if it has been waited for too long.
func (l *loop) await(path string, now time.Time) {
	w := l.waits[path]
	if w == nil {
		w = &wait{since: now}
		l.waits[path] = w
	}
	w.newName, w.unwritten = "", false
	l.wake(w, now.Add(l.QuietPeriod), now)
}

// wake sets when a wait ends, within the limit.
func (l *loop) wake(w *wait, due, now time.Time) {
	if limit := w.since.Add(settleLimit); due.After(limit) {
		due = limit
	}
	if due.Before(now) {
		due = now
	}
	w.due = due
	if len(l.waits) == 1 || due.Before(l.wakeAt) {
		l.wakeAt = due
	}
}

// lookAgain looks at the files whose wait is over, and drops those that are gone.
func (l *loop) lookAgain(now time.Time) {
	if len(l.waits) == 0 || l.wakeAt.After(now) {
		return
	}
	// What was renamed comes after its new name: only then is it known whether that one is waited for any longer.
	var due, renamed []string
	for _, path := range slices.Sorted(maps.Keys(l.waits)) {
		switch w := l.waits[path]; {
		case l.waits[w.newName] != nil:
			renamed = append(renamed, path)
		case !w.due.After(now):
			due = append(due, path)
		}
	}
	var gone []string
	for len(due) > 0 {
		for _, path := range due {
			w := l.waits[path]
			delete(l.waits, path)
			why := afterQuiet
			if w.unwritten {
				why = createdUnwritten
			}
			switch l.look(path, sighting{occasion: why, waited: now.Sub(w.since)}, now) {
			case incomplete:
				w.unwritten = false
				l.waits[path] = w
				l.wake(w, now.Add(l.QuietPeriod), now)
			case absent:
				gone = append(gone, path)
			}
		}
		due = nil
		renamed = slices.DeleteFunc(renamed, func(path string) bool {
			free := l.waits[l.waits[path].newName] == nil
			if free {
				due = append(due, path)
			}
			return free
		})
	}
	l.drop(gone, now)
	l.wakeAt = now.Add(l.QuietPeriod)
	for _, w := range l.waits {
		if w.due.Before(l.wakeAt) && l.waits[w.newName] == nil {
			l.wakeAt = w.due
		}
	}
}

// drop removes the entries of files that aren't there any more, if it is they that are gone and not the whole path.
func (l *loop) drop(gone []string, now time.Time) {
	if len(gone) == 0 {
		return
	}
	if r, err := locate(l.Path); err != nil || r.single != l.root.single || !r.stamp.sameFile(l.root.stamp) {
		l.relist(now)
		return
	}
	for _, path := range gone {
		if e := l.entries.drop(path); e != nil && e.ignored {
			l.ignored--
		}
	}
}

// outcome is what came of looking at a file.
type outcome int

const (
	// taken: the entry shows the file as it is now.
	taken outcome = iota
	// incomplete: the file isn't to be read yet.
	incomplete
	// absent: there is no file.
	absent
)

// look reads a file if it is complete, and keeps what it found as the file's entry. The caller gives the sighting's occasion
// and what it waited.
func (l *loop) look(path string, s sighting, now time.Time) outcome {
	if reason := l.ignore(path); reason != "" {
		return l.lookIgnored(path, reason)
	}
	f, version, err := open(path)
	if errors.Is(err, errGone) {
		return absent
	}
	if err != nil {
		switch s.occasion {
		case created, createdAfterRename, createdUnwritten:
			return incomplete
		}
		l.keep(&entry{path: path, print: fingerprint{problem: err.Error()}}, func() *manifest.Origin {
			return manifest.Broken(path, err)
		})
		return taken
	}
	defer f.Close()
	if e := l.entries.get(path); e != nil && e.current(version) {
		return taken
	}
	s.size = version.size
	s.writers = writersOf(f)
	s.metadataLast = version.ctime.After(version.mtime)
	s.still = now.Sub(version.changed())
	if !s.complete(l.QuietPeriod) {
		return l.incomplete(path, s)
	}
	data, stable, err := readAll(f, version)
	if !stable && s.waited < settleLimit {
		return l.incomplete(path, s)
	}
	e := &entry{path: path, stamp: version, racy: s.still < racyWindow}
	if err != nil {
		e.print.problem = err.Error()
		l.keep(e, func() *manifest.Origin { return manifest.Broken(path, err) })
		return taken
	}
	e.print.sum = sha256.Sum256(data)
	l.keep(e, func() *manifest.Origin {
		return manifest.Parse(data, manifest.Options{
			Origin: path, OriginKind: manifest.FileKind, Node: l.Node, Strict: l.Strict,
		})
	})
	return taken
}

// incomplete leaves the entry as it is. A file that the first listing meets half-written is held, rather than left out: it
// may have pods from before this process.
func (l *loop) incomplete(path string, s sighting) outcome {
	if s.occasion == firstListing && l.entries.get(path) == nil {
		l.keep(&entry{path: path, print: fingerprint{problem: errBeingWritten.Error()}}, func() *manifest.Origin {
			return manifest.Broken(path, errBeingWritten)
		})
	}
	return incomplete
}

// keep puts the entry in place of the one of the same path. Its origin is made only if the reading differs from the last.
func (l *loop) keep(e *entry, origin func() *manifest.Origin) {
	old := l.entries.get(e.path)
	switch {
	case old == nil:
		e.origin = origin()
		report(l.Logger, nil, e.origin)
	case old.print == e.print:
		e.origin = old.origin
	default:
		e.origin = origin()
		report(l.Logger, old.origin.Findings, e.origin)
	}
	l.entries.put(e)
}

// ignore says why a file isn't read, by its name. Empty: it is.
func (l *loop) ignore(path string) string {
	switch {
	case !utf8.ValidString(path):
		return "not read: its name isn't UTF-8"
	case !l.root.isManifest(path):
		return "not read: manifests end in .yaml, .yml or .json"
	}
	return ""
}

// lookIgnored names a file that isn't read.
func (l *loop) lookIgnored(path, reason string) outcome {
	info, err := os.Lstat(path)
	if err != nil || info.IsDir() {
		return absent
	}
	if l.entries.get(path) != nil {
		return taken
	}
	name := path
	if !utf8.ValidString(path) {
		name = strconv.QuoteToASCII(path)
	}
	e := &entry{path: path, ignored: true, origin: &manifest.Origin{
		Name:     name,
		Findings: []manifest.Finding{{Severity: manifest.Ignored, Message: reason}},
	}}
	if l.ignored++; l.ignored <= maxIgnored {
		report(l.Logger, nil, e.origin)
	}
	l.entries.put(e)
	return taken
}
