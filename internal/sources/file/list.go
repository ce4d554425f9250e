package file

import (
	"context"
	"fmt"
	"os"
	"time"
)

// relist compares all files with what was read of them, after it has checked the path and its watch.
func (l *loop) relist(ctx context.Context, now time.Time) {
	l.relistAt = now.Add(l.CheckFrequency)
	l.at(l.Path)
	root, err := locate(l.Path)
	if err == nil {
		err = l.replaced(root)
	}
	if err == nil {
		err = l.unmounted(ctx, root)
	}
	if err != nil {
		l.fail(err, now)
		return
	}
	if l.err != nil && !l.returning {
		// A directory that has just come back is probably being filled.
		l.returning = true
		l.relistAt = now.Add(l.QuietPeriod)
		return
	}
	why := relisting
	if !l.listed || l.err != nil {
		why = firstListing
	}
	if l.listed && root.single != l.root.single {
		// It had no manifests, or the change is confirmed: otherwise replaced refuses it.
		why = firstListing
		l.entries, l.ignored = nil, 0
		clear(l.waits)
	}
	// The watch comes first: changes after the listing are then events.
	l.follow(root, now)
	files, err := root.list(ctx, l.Path)
	if err != nil {
		l.fail(err, now)
		return
	}
	if l.err != nil {
		l.Logger.Info("Manifests can be read again")
	}
	l.remember(root)
	l.root, l.listed, l.err, l.returning = root, true, nil, false
	l.compare(ctx, files, why, now)
}

// fail records that the path can't be read. Entries are kept, though no Set has them: the path may come back
// unchanged.
func (l *loop) fail(err error, now time.Time) {
	err = fmt.Errorf("read manifests: %w", err)
	if l.err == nil || l.err.Error() != err.Error() {
		l.Logger.Warn("Manifests can't be read; their pods stay", "error", err)
	}
	l.err, l.returning = err, false
	clear(l.waits)
	l.relistAt = now.Add(recheckInterval)
	l.followParent()
}

// compare reads the files that differ from the entries. Both are sorted.
func (l *loop) compare(ctx context.Context, files []string, why occasion, now time.Time) {
	var differ []string
	missing := false
	known := l.entries
	for len(files) > 0 || len(known) > 0 {
		switch {
		case len(known) == 0 || len(files) > 0 && files[0] < known[0].path:
			differ = append(differ, files[0])
			files = files[1:]
		case len(files) == 0 || known[0].path < files[0]:
			missing = true
			differ = append(differ, known[0].path)
			known = known[1:]
		default:
			l.at(files[0])
			if known[0].suspect() {
				differ = append(differ, files[0])
			}
			files, known = files[1:], known[1:]
		}
	}
	for _, path := range differ {
		switch {
		case ctx.Err() != nil:
			return
		case l.waits[path] != nil:
			// It will be checked anyway.
		case missing:
			// A new file may be a missing one under a new name: both belong in one Set.
			l.await(path, now)
		default:
			if l.look(ctx, path, &sighting{occasion: why}, now) != taken {
				l.await(path, now)
			}
		}
	}
}

// suspect reports whether the file may differ from what was read of it.
func (e *entry) suspect() bool {
	if e.ignored {
		return false
	}
	info, err := os.Stat(e.path)
	return err != nil || !e.current(stampOf(info))
}
