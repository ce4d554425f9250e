package podconfigd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sourceconfig"
	"github.com/podstream/podstream/internal/sources"
)

// reader is a source that runs, has ended by itself, or couldn't be made yet.
type reader struct {
	entry sourceconfig.Source
	// source is nil if it couldn't be made.
	source sources.Source
	// first is set on those of podconfigd's start.
	first bool
	stop  context.CancelFunc
	// ended is closed when the goroutine has ended; err is its error, or why the source couldn't be made.
	ended chan struct{}
	err   error
	// reported: err was reported. Only the supervisor's goroutine uses it.
	reported bool

	// delivered: it has given a set; good: one without an error.
	delivered, good atomic.Bool

	// mu is held while a set is passed on. gone: nothing is passed on any more.
	mu   sync.Mutex
	gone bool
}

// makeReader makes the reader of a source, and starts nothing. If it can't be made because of a missing or invalid
// file, the reader is one that has ended already: only this source fails, and the file may be corrected soon. Any
// other reason is an error.
func makeReader(entry sourceconfig.Source, build func(sourceconfig.Source) (sources.Source, error)) (*reader, error) {
	r := &reader{entry: entry, stop: func() {}, ended: make(chan struct{}), err: entry.Problem}
	if r.err == nil {
		var err error
		if r.source, err = build(entry); err == nil {
			return r, nil
		}
		if r.source = nil; !lacksFile(entry, err) {
			return nil, err
		}
		r.err = err
	}
	r.reported = true
	close(r.ended)
	return r, nil
}

// lacksFile reports whether an error of build is about a file, and not about the source's configuration.
func lacksFile(entry sourceconfig.Source, err error) bool {
	var file *fs.PathError
	return errors.As(err, &file) || entry.API != nil && entry.API.Kubeconfig != ""
}

// run reads the source until ctx ends, and its objects if it is an ObjectSource.
func (r *reader) run(
	ctx context.Context, out func(manifest.Set), follow func(context.Context, string, sources.ObjectSource) error,
) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.source.Run(ctx, func(set manifest.Set) { r.pass(func() { out(set) }) }) })
	if objects, ok := r.source.(sources.ObjectSource); ok {
		group.Go(func() error { return follow(ctx, r.entry.Name, passedObjects{objects, r}) })
	}
	return group.Wait()
}

// pass calls hand, unless the reader was silenced.
func (r *reader) pass(hand func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.gone {
		hand()
	}
}

// silence ends that anything is passed on, whatever the source still does.
func (r *reader) silence() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = true
}

// passedObjects are the objects of a reader's source.
type passedObjects struct {
	sources.ObjectSource
	r *reader
}

// RunObjects is part of sources.ObjectSource.
func (p passedObjects) RunObjects(
	ctx context.Context, wanted <-chan []sources.ObjectKey, out func(sources.ObjectKey, *manifest.Object),
) error {
	return p.ObjectSource.RunObjects(ctx, wanted, func(key sources.ObjectKey, object *manifest.Object) {
		p.r.pass(func() { out(key, object) })
	})
}

// broken reports whether it has failed, and wasn't stopped: a reload tries it again.
func (r *reader) broken() bool {
	select {
	case <-r.ended:
		return r.err != nil
	default:
		return false
	}
}

// fits reports whether it can go on as the reader of an entry: the settings and files that it was made with are
// unchanged, or its files can't be used now. In the latter case their previous content stays in use.
func (r *reader) fits(entry sourceconfig.Source) bool {
	return !r.broken() && (r.entry.Fingerprint == entry.Fingerprint || entry.Problem != nil && r.entry.SameSettings(entry))
}

// failure returns its error, unless that was reported already.
func (r *reader) failure() error {
	if r.reported || !r.broken() {
		return nil
	}
	r.reported = true
	return fmt.Errorf("source %s: %w", r.entry.Name, r.err)
}
