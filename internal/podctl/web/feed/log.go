package feed

import "sync"

// itemBytes is what an item counts beside its size.
const itemBytes = 128

// Log keeps the last items. It is safe for concurrent use.
type Log[T any] struct {
	maxItems, maxBytes int
	// dropped gets each item that is dropped. Nil: none.
	dropped func(T)

	mu     sync.Mutex
	wakers wakers
	items  []logItem[T]
	first  uint64 // the number of items[0]; numbers start at 1
	bytes  int
}

type logItem[T any] struct {
	value T
	size  int
}

// NewLog returns a Log with these bounds. dropped, if it isn't nil, is called for each item that is dropped, under the Log's
// lock.
func NewLog[T any](maxItems, maxBytes int, dropped func(T)) *Log[T] {
	return &Log[T]{maxItems: maxItems, maxBytes: maxBytes, dropped: dropped, wakers: wakers{}, first: 1}
}

// Append adds an item of so many bytes, and returns its number.
func (l *Log[T]) Append(value T, size int) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.items = append(l.items, logItem[T]{value, size + itemBytes})
	l.bytes += size + itemBytes
	drop := 0
	for drop < len(l.items)-1 && (len(l.items)-drop > l.maxItems || l.bytes > l.maxBytes) {
		l.bytes -= l.items[drop].size
		if l.dropped != nil {
			l.dropped(l.items[drop].value)
		}
		l.items[drop] = logItem[T]{}
		drop++
	}
	l.items, l.first = l.items[drop:], l.first+uint64(drop)
	l.wakers.wake()
	return l.last()
}

// last returns the number of the last item, first-1 if there is none.
func (l *Log[T]) last() uint64 { return l.first + uint64(len(l.items)) - 1 }

// Bounds returns the numbers of the first and the last item that are kept: last is first-1 if there is none.
func (l *Log[T]) Bounds() (first, last uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first, l.last()
}

// Read returns the items after a number, at most so many and so many bytes but at least one, the number of the last one, and
// how many were dropped before them. more reports whether others follow.
func (l *Log[T]) Read(after uint64, maxItems, maxBytes int) (items []T, last, missed uint64, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if after > l.last() {
		after = l.last()
	}
	if after+1 < l.first {
		missed, after = l.first-1-after, l.first-1
	}
	bytes := 0
	for _, item := range l.items[after+1-l.first:] {
		if len(items) > 0 && (len(items) == maxItems || bytes+item.size > maxBytes) {
			break
		}
		items, bytes = append(items, item.value), bytes+item.size
	}
	last = after + uint64(len(items))
	return items, last, missed, last < l.last()
}

// ReadBack returns the items before a number, in order, likewise; 0 means from the end.
func (l *Log[T]) ReadBack(before uint64, maxItems, maxBytes int) []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before == 0 || before > l.last() {
		before = l.last() + 1
	}
	if before <= l.first {
		return nil
	}
	end := int(before - l.first) //nolint:gosec // It is at most the number of items.
	start, bytes := end, 0
	for start > 0 && end-start < maxItems && (start == end || bytes+l.items[start-1].size <= maxBytes) {
		start--
		bytes += l.items[start].size
	}
	out := make([]T, 0, end-start)
	for _, item := range l.items[start:end] {
		out = append(out, item.value)
	}
	return out
}

// Each calls visit for all items in order, under the Log's lock, until it returns false.
func (l *Log[T]) Each(visit func(number uint64, item T) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, item := range l.items {
		if !visit(l.first+uint64(i), item.value) {
			return
		}
	}
}

// Follow registers a channel with a buffer of one, until stop is called.
func (l *Log[T]) Follow(c chan<- struct{}) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wakers.add(c)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.wakers.remove(c)
	}
}
