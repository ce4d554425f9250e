package cluster

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// patience is how long an answer of the API server is waited for before what is remembered counts: its try may take a lot longer.
	patience = 10 * time.Second
	// writePause is how long nothing is written after something was, and unwritablePause after it couldn't be.
	writePause, unwritablePause = 5 * time.Second, time.Minute
)

// run follows the API server until ctx ends, and sees to it that what it reads is remembered, and that what was remembered counts while
// there is nothing to read.
func (t *table[T]) run(ctx context.Context, find func(context.Context) (resource, error)) {
	if t.memory == nil {
		t.follow(ctx, find)
		return
	}
	var beside sync.WaitGroup
	beside.Go(func() {
		if wait(ctx, patience); ctx.Err() == nil {
			t.recall()
		}
	})
	beside.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-t.changed:
				wait(ctx, t.remember())
			case <-ctx.Done():
			}
		}
	})
	t.follow(ctx, find)
	beside.Wait()
	t.remember()
}

// recall has what is remembered count, unless something was read already.
func (t *table[T]) recall() {
	t.mu.Lock()
	known := t.known
	t.mu.Unlock()
	if t.memory == nil || known != unread {
		return
	}
	t.recalling.Do(func() {
		objects, at, err := t.memory.read()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return
		case err != nil:
			t.log.Warn("what was remembered of the API server can't be used", "objects", t.what, "path", t.memory.path, "error", err)
			return
		}
		counts := false
		t.change(func() bool {
			if counts = t.known == unread; counts {
				t.known, t.recalled = remembered, objects
			}
			return counts
		})
		if counts {
			t.log.Warn("what was remembered is used, as the API server can't be read", "objects", t.what, "as_of", at)
		}
	})
}

// remember writes down what was read, if anything was, and returns how long nothing is to be written after that.
func (t *table[T]) remember() time.Duration {
	objects, ok := t.content()
	if !ok {
		return 0
	}
	was := t.memory.failing
	err := t.memory.write(objects)
	t.memory.failing = err != nil
	switch {
	case err != nil && !was:
		t.log.Warn("what was read of the API server can't be remembered", "objects", t.what, "path", t.memory.path, "error", err)
	case err == nil && was:
		t.log.Info("what is read of the API server can be remembered again", "objects", t.what, "path", t.memory.path)
	}
	if err != nil {
		t.signal() // It is tried again without another change.
		return unwritablePause
	}
	return writePause
}

// content are the objects that were read, by namespace and name; false: none were.
func (t *table[T]) content() (objects []T, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known != read {
		return nil, false
	}
	objects = make([]T, 0, len(t.rows))
	for _, name := range slices.SortedFunc(maps.Keys(t.rows), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}) {
		objects = append(objects, t.rows[name].kept)
	}
	return objects, true
}

// signal tells that there is something to remember.
func (t *table[T]) signal() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}
