package file

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/openfile"
)

var (
	errBeingWritten = errors.New("is still being written; it is read when its writer closes it")
	errLeased       = errors.New("can't be opened: another process holds a lease on it; it is read when that is given up")
)

// wait is a file that is checked later: it may be incomplete, or gone.
type wait struct {
	// due is the time of the next check.
	due time.Time
	// since is when the waiting began.
	since time.Time
	// seen is the version of the file at the last check. Zero if there was none.
	seen stamp
	// newName is what the file was renamed to, as far as is known. It is waited for as well, so that both change in
	// one Set.
	newName string
	// unwritten: the name was created, and no event has followed.
	unwritten bool
}

// await delays the check of a file by a quiet period, or less if the settleLimit ends before.
func (l *loop) await(path string, now time.Time) {
	w := l.waits[path]
	if w == nil {
		w = &wait{since: now}
		l.waits[path] = w
	}
	w.newName, w.unwritten = "", false
	l.wake(w, now.Add(l.QuietPeriod), now)
}

// wake sets when a wait ends: not beyond the settleLimit, at which the file's finding changes.
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

// lookAgain checks the files whose wait is over, and drops those that are gone.
func (l *loop) lookAgain(ctx context.Context, now time.Time) {
	if len(l.waits) == 0 || l.wakeAt.After(now) {
		return
	}
	// A renamed file comes after its new name: only then is it known whether that is still waited for.
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
	for len(due) > 0 && ctx.Err() == nil {
		for _, path := range due {
			if ctx.Err() != nil {
				return
			}
			w := l.waits[path]
			delete(l.waits, path)
			why := afterQuiet
			if w.unwritten {
				why = createdUnwritten
			}
			s := sighting{occasion: why, waited: now.Sub(w.since), version: w.seen}
			switch l.look(ctx, path, &s, now) {
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
	l.drop(ctx, gone, now)
	l.wakeAt = now.Add(l.recheck())
	for path, w := range l.waits {
		if w.due.Before(l.wakeAt) && !l.follows(path, w, now) {
			l.wakeAt = w.due
		}
	}
}

// recheck is the time between two checks of a file that is held for longer than the settleLimit. It may be held for
// hours.
func (l *loop) recheck() time.Duration { return max(l.QuietPeriod, recheckInterval) }

// follows reports whether the file at path, which was renamed, waits for its new name. Within the settleLimit it
// does. Beyond that it does only if the two are one file: another file's writer may take hours, and must not keep
// this one.
func (l *loop) follows(path string, w *wait, now time.Time) bool {
	next := l.waits[w.newName]
	if next == nil || now.Sub(next.since) < settleLimit {
		return next != nil
	}
	e := l.entries.get(path)
	info, err := os.Stat(w.newName)
	return e != nil && err == nil && e.stamp.sameFile(stampOf(info))
}

// drop removes the entries of files that are gone, unless the whole path is gone.
func (l *loop) drop(ctx context.Context, gone []string, now time.Time) {
	if len(gone) == 0 {
		return
	}
	if r, err := locate(l.Path); err != nil || r.single != l.root.single || !r.same(l.root) {
		l.relist(ctx, now)
		return
	}
	for _, path := range gone {
		if e := l.entries.drop(path); e != nil && e.ignored {
			l.ignored--
		}
	}
}

// outcome is the result of checking a file.
type outcome int

const (
	// taken: the entry shows the file as it is now.
	taken outcome = iota
	// incomplete: the file mustn't be read yet.
	incomplete
	// absent: there is no file.
	absent
)

// look reads a file if it is complete, and stores the result as the file's entry. The caller sets the sighting's
// occasion and, if the file waited, how long and the version of the last check; look fills in the rest.
func (l *loop) look(ctx context.Context, path string, s *sighting, now time.Time) outcome {
	if reason := l.ignore(path); reason != "" {
		return l.lookIgnored(path, reason)
	}
	l.at(path)
	f, version, err := open(path)
	if errors.Is(err, errGone) {
		return absent
	}
	if errors.Is(err, openfile.ErrLeased) {
		// The holder of the lease may be about to write, and each attempt asks it to release the lease.
		return l.incomplete(path, s, errLeased)
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
		return l.incomplete(path, s, errBeingWritten)
	}
	data, stable, err := readAll(ctx, f, version)
	if !stable {
		return l.incomplete(path, s, errBeingWritten)
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

// incomplete leaves the entry as it is until the settleLimit. Then the file is held, so that a finding shows why its
// new version isn't used; its last good pods stay. A file that is incomplete at the first listing is held at once and
// not left out: it may have pods from before this process.
func (l *loop) incomplete(path string, s *sighting, why error) outcome {
	if s.waited >= settleLimit || s.occasion == firstListing && l.entries.get(path) == nil {
		e := &entry{path: path, stamp: s.version, print: fingerprint{problem: why.Error()}}
		l.keep(e, func() *manifest.Origin {
			return manifest.Broken(path, why)
		})
	}
	return incomplete
}

// keep replaces the entry of the same path. It makes an origin only if the reading differs from the last one.
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

// ignore returns why a file of that name isn't read. Empty: it is read.
func (l *loop) ignore(path string) string {
	switch {
	case !utf8.ValidString(path):
		return "not read: its name isn't UTF-8"
	case !l.root.isManifest(path):
		return "not read: manifests end in .yaml, .yml or .json"
	}
	return ""
}

// lookIgnored adds the entry of a file that isn't read.
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
