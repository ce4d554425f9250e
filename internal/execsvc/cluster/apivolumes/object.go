package apivolumes

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// result is what a read returned.
type result[T any] struct {
	object T
	err    error
	// began is when the request began: the object isn't older. Zero: there was no request.
	began time.Time
}

// object is one object. Its callers and waiters share each read and the pauses between them: their number, and how often they
// come and go, doesn't change how often it is read.
type object[T any] struct {
	last result[T]
	// cut is set if last.object was dropped.
	cut     bool
	reading bool
	// news is closed, and replaced, when a read has ended, next is earlier, or the last waiter has left.
	news chan struct{}
	// callers is the number of calls of read, and waiters are served by a goroutine while there are any.
	callers int
	waiters map[*waiter[T]]bool
	served  bool

	// failing is set if the last read wasn't enough for a caller or waiter. Then next is when the object is read again.
	failing bool
	next    time.Time
	pauses  wait.Backoff
	// early is when a read was last requested before next, and restarted when the pauses last began again.
	early, restarted time.Time
}

// waiter waits for an object until enough returns true for a read that began at since or later. enough must not block or call the
// reads. Then done is called once.
type waiter[T any] struct {
	since  time.Time
	enough func(T, error) bool
	done   func()
}

// soon is the earliest time of the next read.
func (o *object[T]) soon() time.Time { return o.last.began.Add(firstPause) }

// request has the object read as soon as that is allowed, and returns when. While the object is failing, that is only now and then
// earlier than next.
func (o *object[T]) request(now time.Time) time.Time {
	switch soon := o.soon(); {
	case o.last.began.IsZero():
		o.next = now
	case !o.failing:
		o.next = soon
	case soon.Before(o.next) && now.Before(o.next) && now.Sub(o.early) >= lastPause:
		o.early, o.next = now, soon
	}
	return o.next
}

// fail sets when an object is read again of which the last read wasn't enough.
func (o *object[T]) fail(now time.Time) {
	if !o.failing {
		o.failing, o.next = true, now.Add(o.pauses.Step())
	}
}

func (o *object[T]) tell() {
	close(o.news)
	o.news = make(chan struct{})
}
