package apiobjects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// patience is how long an answer of the API server is awaited before stored objects are used: the attempt itself
	// may take much longer.
	patience = 10 * time.Second
	// writePause is the least time between two writes, and unwritablePause the pause after a failed one.
	writePause, unwritablePause = 5 * time.Second, time.Minute
)

// run follows the API server until ctx ends, stores the objects that it reads, and uses stored objects while it
// can't read.
func (t *table[T]) run(ctx context.Context, find func(context.Context) (Resource, error)) {
	if t.memory == nil {
		t.follow(ctx, find)
		return
	}
	var beside sync.WaitGroup
	beside.Go(func() {
		if sleep(ctx, patience); ctx.Err() == nil {
			t.recall()
		}
	})
	beside.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-t.changed:
				sleep(ctx, t.remember())
			case <-ctx.Done():
			}
		}
	})
	t.follow(ctx, find)
	beside.Wait()
	t.remember()
}

// recall uses the stored objects, unless objects were read already.
func (t *table[T]) recall() {
	t.mu.Lock()
	known, now := t.known, t.answer
	t.mu.Unlock()
	if t.memory == nil || known != unread {
		return
	}
	t.recalling.Do(func() {
		objects, from, err := t.memory.read(now)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return
		case err != nil:
			t.log.Warn("stored API objects can't be used", "objects", t.what, "path", t.memory.path, "error", err)
			return
		}
		counts := false
		t.change(func() bool {
			// A server may have answered meanwhile.
			if counts = t.known == unread && t.memory.belongs(from, t.answer) == nil; counts {
				t.known, t.recalled, t.recalledFrom = remembered, objects, from
			}
			return counts
		})
		if counts {
			t.log.Warn("the API server can't be read; stored objects are used", "objects", t.what, "as_of", from.Time)
		}
	})
}

// answered records which cluster answers. Objects of another one, recalled or read, are no longer used.
func (t *table[T]) answered(cluster types.UID) {
	var other error
	t.mu.Lock()
	t.answer = answer{true, cluster}
	switch {
	case t.known == remembered:
		other = t.memory.belongs(t.recalledFrom, t.answer)
	case t.known == read && cluster != "" && t.cluster != "" && cluster != t.cluster:
		other = fmt.Errorf("they are of the cluster %s, and not of %s", t.cluster, cluster)
	}
	if other != nil {
		t.known, t.recalled, t.rows, t.cluster = unread, nil, map[types.NamespacedName]row[T]{}, ""
	}
	t.mu.Unlock()
	if other != nil {
		t.log.Warn("stored API objects are no longer used", "objects", t.what, "path", t.memory.path, "error", other)
	}
}

// remember stores the objects that were read, if any, and returns how long to wait until the next write.
func (t *table[T]) remember() time.Duration {
	objects, cluster, ok := t.content()
	if !ok {
		return 0
	}
	was := t.memory.failing
	err := t.memory.write(objects, cluster)
	t.memory.failing = err != nil
	switch {
	case err != nil && !was:
		t.log.Warn("API objects can't be stored", "objects", t.what, "path", t.memory.path, "error", err)
	case err == nil && was:
		t.log.Info("API objects can be stored again", "objects", t.what, "path", t.memory.path)
	}
	if err != nil {
		t.signal() // It is retried without another change.
		return unwritablePause
	}
	return writePause
}

// content returns the objects that were read, by namespace and name, and their cluster; false: none were read.
func (t *table[T]) content() (objects []T, cluster types.UID, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known != read {
		return nil, "", false
	}
	objects = make([]T, 0, len(t.rows))
	for _, name := range slices.SortedFunc(maps.Keys(t.rows), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}) {
		objects = append(objects, t.rows[name].kept)
	}
	return objects, t.cluster, true
}

// of returns the cluster of the objects that were read.
func (t *table[T]) of() types.UID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cluster
}

// signal reports that objects have to be stored.
func (t *table[T]) signal() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}
