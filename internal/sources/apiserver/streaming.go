package apiserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// initialSilence is how long a streaming list that isn't complete yet may send nothing.
	initialSilence = 30 * time.Second
	// listsOnly is how long after that only lists are requested.
	listsOnly = 10 * time.Minute
)

// patience is the deadline of a streaming list: a time without an event, and that of a list in all. It begins with
// the request, as a server, or a proxy before it, may accept one and never answer.
type patience struct {
	silence time.Duration
	// quiet and whole are the two timers, and once lets one of them end the list.
	quiet, whole *time.Timer
	once         sync.Once
}

// newPatience calls giveUp, at most once, when a timer fires.
func newPatience(silence time.Duration, giveUp func(error)) *patience {
	p := &patience{silence: silence}
	end := func(err error) func() { return func() { p.once.Do(func() { giveUp(err) }) } }
	p.quiet = time.AfterFunc(silence, end(fmt.Errorf("a streaming list that isn't complete has said nothing for %v", silence)))
	p.whole = time.AfterFunc(listTimeout, end(errListTimeout))
	return p
}

// stop ends it: the list is complete, or has ended.
func (p *patience) stop() {
	p.once.Do(func() {})
	p.quiet.Stop()
	p.whole.Stop()
}

// boundedWatch is a watch with a deadline.
type boundedWatch struct {
	watch.Interface
	cancel context.CancelFunc
}

// Stop ends the watch.
func (w *boundedWatch) Stop() {
	w.Interface.Stop()
	w.cancel()
}

// streamingList is a watch that begins with the initial state, until a bookmark ends that.
type streamingList struct {
	boundedWatch
	events chan watch.Event
}

// ResultChan is part of watch.Interface.
func (l *streamingList) ResultChan() <-chan watch.Event { return l.events }

// forward passes the events on until there are no more, or ctx ends, as it does when the watch is stopped.
func (l *streamingList) forward(ctx context.Context, p *patience) {
	defer close(l.events)
	defer p.stop()
	complete := false
	for event := range l.Interface.ResultChan() {
		switch {
		case complete:
		case endsInitialEvents(event):
			complete = true
			p.stop()
		default:
			p.quiet.Reset(p.silence)
		}
		select {
		case l.events <- event:
		case <-ctx.Done():
			return
		}
	}
}

func endsInitialEvents(event watch.Event) bool {
	if event.Type != watch.Bookmark {
		return false
	}
	object, err := meta.Accessor(event.Object)
	return err == nil && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}

// mayStream reports whether a streaming list may be tried. If not, the reflector requests a list at once.
func (r *reader) mayStream() bool {
	if r.givenUp.Swap(false) {
		r.listsUntil = r.clock.Now().Add(listsOnly)
	}
	return r.accept == "" && r.unfinished < maxUnfinished && !r.clock.Now().Before(r.listsUntil)
}
