package feed

import "sync"

// Value is one value that changes. It is safe for concurrent use.
type Value[T any] struct {
	mu      sync.Mutex
	wakers  wakers
	value   T
	version uint64
}

// NewValue returns a Value. Its version is 1.
func NewValue[T any](value T) *Value[T] { return &Value[T]{wakers: wakers{}, value: value, version: 1} }

// Set replaces the value.
func (v *Value[T]) Set(value T) { v.Change(func(T) T { return value }) }

// Change replaces the value by what change returns.
func (v *Value[T]) Change(change func(T) T) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.value = change(v.value)
	v.version++
	v.wakers.wake()
}

// Get returns the value and its version, which rises with each change.
func (v *Value[T]) Get() (value T, version uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.value, v.version
}

// Follow registers a channel with a buffer of one, until stop is called.
func (v *Value[T]) Follow(c chan<- struct{}) (stop func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wakers.add(c)
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.wakers.remove(c)
	}
}
