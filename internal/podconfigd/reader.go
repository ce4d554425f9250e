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

// reader is a source that runs, or has ended by itself, or couldn't be made yet.
type reader struct {
	entry sourceconfig.Source
	// source is nil if it couldn't be made.
	source sources.Source
	// first is set on those that podconfigd began with.
	first bool
	stop  context.CancelFunc
	// ended is closed when the goroutine has ended; err is what it ended with, or why the source couldn't be made.
	ended chan struct{}
	err   error
	// told: err has been told of. Only the supervisor's goroutine has to do with it.
	told bool

	// spoke: it has handed over a set; good: one without an error.
	spoke, good atomic.Bool

	// mu is held while a set is handed over. gone: nothing is handed over any more.
	mu   sync.Mutex
	gone bool
}

// makeReader makes the reader of a source, and starts nothing. If it can't be made for a file that is missing or no good, the reader is
// one that has ended already: that is the source's own affair, and may be over soon. Any other reason is an error.
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
	r.told = true
	close(r.ended)
	return r, nil
}

// lacksFile tells whether an error of build is about a file, and not about how the source is configured.
func lacksFile(entry sourceconfig.Source, err error) bool {
	var file *fs.PathError
	return errors.As(err, &file) || entry.API != nil && entry.API.Kubeconfig != ""
}

// run reads the source until ctx ends, and its objects if it has to be asked for them.
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

// pass hands something over, unless the reader's time is over.
func (r *reader) pass(hand func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.gone {
		hand()
	}
}

// silence has nothing handed over from now on, whatever the source still does.
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

// broken tells whether it doesn't read, though nobody has stopped it: a reload tries it anew.
func (r *reader) broken() bool {
	select {
	case <-r.ended:
		return r.err != nil
	default:
		return false
	}
}

// fits tells whether it can go on as the reader of an entry: nothing has changed that it was made with, or its files can't be used now:
// then what they held before stays in use.
func (r *reader) fits(entry sourceconfig.Source) bool {
	return !r.broken() && (r.entry.Fingerprint == entry.Fingerprint || entry.Problem != nil && r.entry.SameSettings(entry))
}

// failure is its error, if that hasn't been told of yet.
func (r *reader) failure() error {
	if r.told || !r.broken() {
		return nil
	}
	r.told = true
	return fmt.Errorf("source %s: %w", r.entry.Name, r.err)
}
