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

var errBeingWritten = errors.New("is still being written; it is read when its writer closes it")

// wait is a file that is to be looked at later: it may be incomplete, or gone.
type wait struct {
	// due is when to look.
	due time.Time
	// since is when the waiting began.
	since time.Time
	// seen is the version of the file at the last look. Zero if there was none.
	seen stamp
	// newName is what the file was renamed to, as far as is known. While that one is waited for, so is this one, so that
	// both change in one Set.
	newName string
	// unwritten: the name was created, and nothing was heard since.
	unwritten bool
}

// await puts off the look at a file for a quiet period, or less if the settleLimit ends before.
func (l *loop) await(path string, now time.Time) {
	w := l.waits[path]
	if w == nil {
		w = &wait{since: now}
		l.waits[path] = w
	}
	w.newName, w.unwritten = "", false
	l.wake(w, now.Add(l.QuietPeriod), now)
}

// wake sets when a wait ends: not beyond the settleLimit, as what is said of the file changes there.
func (l *loop) wake(w *wait, due, now time.Time) {
	if limit := w.since.Add(settleLimit); limit.After(now) && due.After(limit) {
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
		case l.follows(path, w, now):
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
			s := sighting{occasion: why, waited: now.Sub(w.since), version: w.seen}
			switch l.look(path, &s, now) {
			case incomplete:
				w.unwritten, w.seen = false, s.version
				l.waits[path] = w
				again := l.QuietPeriod
				if s.waited >= settleLimit {
					again = l.recheck()
				}
				l.wake(w, now.Add(again), now)
			case absent:
				gone = append(gone, path)
			}
		}
		due = nil
		renamed = slices.DeleteFunc(renamed, func(path string) bool {
			free := !l.follows(path, l.waits[path], now)
			if free {
				due = append(due, path)
			}
			return free
		})
	}
	l.drop(gone, now)
	l.wakeAt = now.Add(l.recheck())
	for path, w := range l.waits {
		if w.due.Before(l.wakeAt) && !l.follows(path, w, now) {
			l.wakeAt = w.due
		}
	}
}

// recheck is the time between two looks at a file that is held for longer than the settleLimit. It may be held for hours.
func (l *loop) recheck() time.Duration { return max(l.QuietPeriod, recheckInterval) }

// follows reports whether the file at path, which went, waits for the one that came in its place. It does so within the
// settleLimit, and beyond it only if the two are one file: another file's writer, who takes hours, doesn't keep this one.
func (l *loop) follows(path string, w *wait, now time.Time) bool {
	next := l.waits[w.newName]
	if next == nil || now.Sub(next.since) < settleLimit {
		return next != nil
	}
	e := l.entries.get(path)
	info, err := os.Stat(w.newName)
	return e != nil && err == nil && e.stamp.sameFile(stampOf(info))
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
// and, if it waited, for how long and the version of the last look; look fills in the rest.
func (l *loop) look(path string, s *sighting, now time.Time) outcome {
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
		case relisting:
			// A link may dangle while a volume is being switched to its next version.
			if e := l.entries.get(path); e == nil || e.print.problem == "" {
				return incomplete
			}
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
	s.steady = s.version.equal(version)
	s.version = version
	s.writers = l.writersOf(f)
	s.metadataLast = version.ctime.After(version.mtime)
	s.still = now.Sub(version.changed())
	s.written = now.Sub(version.mtime)
	if !s.complete(l.QuietPeriod) {
		return l.incomplete(path, s)
	}
	data, stable, err := readAll(f, version)
	if !stable {
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

// incomplete leaves the entry as it is until the settleLimit. Then the file is held, so that it shows why its new version
// doesn't come; its last good pods stay. One that the first listing meets half-written is held at once, rather than left out:
// it may have pods from before this process.
func (l *loop) incomplete(path string, s *sighting) outcome {
	if s.waited >= settleLimit || s.occasion == firstListing && l.entries.get(path) == nil {
		e := &entry{path: path, stamp: s.version, print: fingerprint{problem: errBeingWritten.Error()}}
		l.keep(e, func() *manifest.Origin {
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
