package mergesvc

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/podstream/podstream/internal/failpoint"
)

var (
	// errMergeStuck and errPublishStuck are errors of Alive.
	errMergeStuck   = errors.New("the Hub's merge lock is held")
	errPublishStuck = errors.New("the Hub's publishing lock is held, and not by a wait for the disk")
)

// watchedMutex is a Mutex of which progressed reports whether it is ever released.
type watchedMutex struct {
	sync.Mutex
	taken atomic.Uint64
	// seen is taken at the last progressed that found the Mutex locked.
	seen atomic.Uint64
}

func (m *watchedMutex) Lock() {
	m.Mutex.Lock()
	m.taken.Add(1)
}

// progressed reports whether the Mutex is free, or was taken since the last call.
func (m *watchedMutex) progressed() bool {
	if m.TryLock() {
		m.Unlock()
		return true
	}
	taken := m.taken.Load()
	return m.seen.Swap(taken) != taken
}

// Alive returns an error if the Hub has made no progress since the last call: one goroutine has held one of its locks
// all the time. The time in which that goroutine waits for the disk doesn't count: a restart wouldn't mend the disk.
// The history's lock counts as the publishing lock, whose holders take it at each check of the store.
func (h *Hub) Alive(context.Context) error {
	switch {
	case !h.mu.progressed():
		return errMergeStuck
	case !h.publishing.progressed() && !h.onDisk.Load():
		return errPublishStuck
	}
	return nil
}

// withDisk calls f, which uses the store's disk. publishing is held.
func (h *Hub) withDisk(f func()) {
	h.onDisk.Store(true)
	defer h.onDisk.Store(false)
	f()
}

// hang is for the tests of the watchdog. Other builds don't have it.
func (h *Hub) hang() {
	if failpoint.Active(failpoint.HoldHubLock) {
		h.mu.Lock()
		defer h.mu.Unlock()
		failpoint.Hold(failpoint.HoldHubLock)
	}
	if failpoint.Active(failpoint.HoldPublishing) {
		h.publishing.Lock()
		defer h.publishing.Unlock()
		failpoint.Hold(failpoint.HoldPublishing)
	}
}
