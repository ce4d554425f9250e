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
	// initialSilence is how long a streaming list that isn't complete yet may say nothing.
	initialSilence = 30 * time.Second
	// listsOnly is for how long after that lists are asked for instead.
	listsOnly = 10 * time.Minute
)

// patience is how long a streaming list is waited for: so long without an event, and as long as a list in all. It begins with the
// request, as a server, or a proxy before it, may accept one and never answer.
type patience struct {
	silence time.Duration
	// quiet and whole are the timers of the two, and once lets one of them end it.
	quiet, whole *time.Timer
	once         sync.Once
}

// newPatience calls giveUp, once at most, when it is at its end.
func newPatience(silence time.Duration, giveUp func(error)) *patience {
	p := &patience{silence: silence}
	end := func(err error) func() { return func() { p.once.Do(func() { giveUp(err) }) } }
	p.quiet = time.AfterFunc(silence, end(fmt.Errorf("a streaming list that isn't complete has said nothing for %v", silence)))
	p.whole = time.AfterFunc(listTimeout, end(errListTimeout))
	return p
}

// stop ends it: the list is complete, or there will be no more of it.
func (p *patience) stop() {
	p.once.Do(func() {})
	p.quiet.Stop()
	p.whole.Stop()
}

// streamingList is a watch that begins with what there is, until a bookmark says that this was all.
type streamingList struct {
	boundedWatch
	events chan watch.Event
}

// ResultChan is part of watch.Interface.
func (l *streamingList) ResultChan() <-chan watch.Event { return l.events }

// forward hands the events on until there are no more, or ctx ends, as it does when the watch is stopped.
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
