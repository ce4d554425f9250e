package web

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
)

// tasks collects the tasks of the page's main thread, by the time for which they had a processor: what they take by the clock
// depends on what else the machine does.
type tasks struct {
	mu      sync.Mutex
	events  []traceEvent
	threads map[[2]int]string
	done    chan struct{}
}

// traceEvent is an event of Chromium's trace, as far as it is needed. Times are in microseconds.
type traceEvent struct {
	Name     string  `json:"name"`
	Process  int     `json:"pid"`
	Thread   int     `json:"tid"`
	Duration float64 `json:"dur"`
	CPU      float64 `json:"tdur"`
	Args     struct {
		Name string `json:"name"`
	} `json:"args"`
}

// trace starts to collect.
func (b *tab) trace() *tasks {
	b.t.Helper()
	c := &tasks{threads: map[[2]int]string{}, done: make(chan struct{})}
	chromedp.ListenTarget(b.ctx, func(event any) {
		switch e := event.(type) {
		case *tracing.EventDataCollected:
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, raw := range e.Value {
				var one traceEvent
				if json.NewDecoder(bytes.NewReader(raw)).Decode(&one) != nil {
					continue
				}
				switch {
				case one.Name == "thread_name":
					c.threads[[2]int{one.Process, one.Thread}] = one.Args.Name
				case one.CPU >= 20_000 || one.Duration >= 20_000:
					c.events = append(c.events, one)
				}
			}
		case *tracing.EventTracingComplete:
			close(c.done)
		}
	})
	b.do(tracing.Start().WithTransferMode(tracing.TransferModeReportEvents).WithTraceConfig(&tracing.TraceConfig{
		IncludedCategories: []string{"toplevel", "disabled-by-default-devtools.timeline"}, ExcludedCategories: []string{"*"},
	}))
	return c
}

// end ends the trace, and returns the longest tasks by processor time and by the clock, in ms.
func (c *tasks) end(b *tab) (cpu, clock []int) {
	b.t.Helper()
	b.do(tracing.End())
	select {
	case <-c.done:
	case <-deadline(patience).Done():
		b.t.Fatal("the trace didn't end")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.events {
		if c.threads[[2]int{one.Process, one.Thread}] != "CrRendererMain" {
			continue
		}
		if one.CPU > 50_000 {
			cpu = append(cpu, int(one.CPU/1000))
		}
		if one.Duration > 50_000 {
			clock = append(clock, int(one.Duration/1000))
		}
	}
	return cpu, clock
}
