package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
)

// tasks collects the tasks of the page's main thread from Chromium's trace: how long each took by the clock, and for how long it
// had a processor. Servers and the test run on the same few processors as the browser. A task that waits for one of them has a
// long time by the clock, whatever the page does, so what the page itself costs is the processor's time.
type tasks struct {
	mu      sync.Mutex
	events  []traceEvent
	threads map[[2]int]string
	lost    bool
	done    chan struct{}
	stop    func()
}

// traceEvent is an event of Chromium's trace, as far as it is needed. Times are in microseconds.
type traceEvent struct {
	Name     string  `json:"name"`
	Start    float64 `json:"ts"`
	Process  int     `json:"pid"`
	Thread   int     `json:"tid"`
	Duration float64 `json:"dur"`
	CPU      float64 `json:"tdur"`
	Args     struct {
		Name string `json:"name"`
	} `json:"args"`
}

// task is a task of the main thread, or a part of one. Times are in ms.
type task struct {
	name              string
	process           int
	start, clock, cpu float64
	// parts are those that Chromium names: scripts, garbage collections, layouts.
	parts []task
}

// String returns both times, and those of the parts.
func (t task) String() string {
	out := fmt.Sprintf("%.0f/%.0f", t.cpu, t.clock)
	for i, part := range t.parts {
		out += []string{" (", ", "}[min(i, 1)] + part.name + " " + part.String()
	}
	if len(t.parts) > 0 {
		out += ")"
	}
	return out
}

// longest returns the maximum of a time of the tasks.
func longest(tasks []task, of func(task) float64) (most float64) {
	for _, t := range tasks {
		most = max(most, of(t))
	}
	return most
}

// trace starts to collect.
func (b *tab) trace() *tasks {
	b.t.Helper()
	ctx, stop := context.WithCancel(b.ctx)
	c := &tasks{threads: map[[2]int]string{}, done: make(chan struct{}), stop: stop}
	b.t.Cleanup(stop)
	chromedp.ListenTarget(ctx, c.take)
	b.do(tracing.Start().WithTransferMode(tracing.TransferModeReportEvents).WithTraceConfig(&tracing.TraceConfig{
		// If the buffer is full, the oldest events go, and the end of the trace reports a loss.
		RecordMode: tracing.RecordModeRecordUntilFull, TraceBufferSizeInKb: 512 << 10,
		IncludedCategories: []string{"toplevel", "disabled-by-default-devtools.timeline", "devtools.timeline", "v8"}, ExcludedCategories: []string{"*"},
	}))
	return c
}

func (c *tasks) take(event any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e := event.(type) {
	case *tracing.EventDataCollected:
		for _, raw := range e.Value {
			var one traceEvent
			if json.NewDecoder(bytes.NewReader(raw)).Decode(&one) != nil {
				continue
			}
			switch {
			case one.Name == "thread_name":
				c.threads[[2]int{one.Process, one.Thread}] = one.Args.Name
			case one.Duration >= shortPart*1000:
				c.events = append(c.events, one)
			}
		}
	case *tracing.EventTracingComplete:
		c.lost = e.DataLossOccurred
		close(c.done)
	}
}

// shortTask is what isn't a long task, and shortPart what isn't listed of one, in ms.
const shortTask, shortPart = 50, 5

// busy is how long the task is that end adds, in ms.
const busy = 800

// end ends the trace, and returns the tasks of more than shortTask by the clock, in their order. Before, it has the page run
// one long task, and fails the test if the trace doesn't have it with its processor time: then it would lack others too.
func (c *tasks) end(b *tab) []task {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf(`new Promise((r) => setTimeout(() => {
		const end = performance.now() + %d;
		while (performance.now() < end);
		r(true);
	}, 100))`, busy))
	b.do(tracing.End())
	select {
	case <-c.done:
	case <-deadline(patience).Done():
		b.t.Fatal("the trace didn't end")
	}
	c.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost {
		b.t.Fatal("the trace is incomplete")
	}
	var found []task
	slices.SortStableFunc(c.events, func(a, b traceEvent) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), -cmp.Compare(a.Duration, b.Duration))
	})
	for _, one := range c.events {
		if c.threads[[2]int{one.Process, one.Thread}] != "CrRendererMain" {
			continue
		}
		part := task{one.Name, one.Process, one.Start / 1000, one.Duration / 1000, one.CPU / 1000, nil}
		if n := len(found); n > 0 && part.process == found[n-1].process && part.start < found[n-1].start+found[n-1].clock {
			found[n-1].parts = append(found[n-1].parts, part)
		} else {
			found = append(found, part)
		}
	}
	found = slices.DeleteFunc(found, func(t task) bool { return t.clock < shortTask })
	added := slices.IndexFunc(found, func(t task) bool { return t.clock >= busy && t.cpu >= longTask })
	if added < 0 {
		b.t.Fatalf("the trace lacks the task of %d ms that was added at its end: it has %v", busy, found)
	}
	for _, one := range found[added:] {
		if one.start > found[added].start+found[added].clock {
			b.t.Fatalf("the trace has tasks after the one that was added at its end: %v", found)
		}
	}
	return found[:added]
}
