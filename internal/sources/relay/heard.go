package relay

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// askTimeout is the deadline for listing the upstream's sources.
const askTimeout = 5 * time.Second

// heard is when the upstream's sources were last heard. An open stream with heartbeats shows nothing about that.
type heard struct {
	api   podconfigv1.PodConfigServiceClient
	clock clock.WithTicker
	every time.Duration
	// begin has a token once the stream is in step: then the upstream is asked for the first time. answered is called
	// after an answer.
	begin    chan struct{}
	answered func()
	// least is the time of the source that was heard least recently. Nil: the upstream hasn't answered yet.
	least atomic.Pointer[time.Time]
}

// ask lists the upstream's sources repeatedly until ctx ends. It has a goroutine of its own, as an answer may take
// long.
func (h *heard) ask(ctx context.Context) {
	ticker := h.clock.NewTicker(h.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.begin:
		case <-ticker.C():
		}
		h.once(ctx)
	}
}

// once asks once. Without an answer the time doesn't change.
func (h *heard) once(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	asked := h.clock.Now()
	resp, err := h.api.ListSources(ctx, &podconfigv1.ListSourcesRequest{})
	if err != nil {
		return
	}
	least := leastHeard(resp.GetSources(), asked)
	h.least.Store(&least)
	h.answered()
}

// leastHeard returns when the least recently heard source was heard; asked is the time of the request. A source that
// was never heard doesn't count: it isn't ready, and nothing of it is removed. Neither does one of an upstream that
// doesn't report it, nor a path or URL that reads well: how often it is read is the upstream's configuration.
func leastHeard(sources []*podconfigv1.Source, asked time.Time) time.Time {
	least := asked
	for _, s := range sources {
		if s.GetUnheardFor() == nil || isPolled(s.GetName()) && s.GetLastError() == "" {
			continue
		}
		if at := asked.Add(-max(s.GetUnheardFor().AsDuration(), 0)); at.Before(least) {
			least = at
		}
	}
	return least
}

// isPolled reports whether a source of that name is read at an interval.
func isPolled(name string) bool {
	kind, _, _ := strings.Cut(name, ":")
	return kind == "file" || kind == "http"
}

// time is the time in a set. Before the first answer it is when the stream was in step.
func (h *heard) time(inStep time.Time) time.Time {
	if least := h.least.Load(); least != nil {
		return *least
	}
	return inStep
}
