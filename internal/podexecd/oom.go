package podexecd

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/machine/kmsg"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
)

// After oomBurst reports of system OOMs, one each oomPeriod is logged, and one each oomEventPeriod is an event. A pod can
// cause them all the time, and client-go drops events of the Node after 25, and then all but one in five minutes: the Node
// needs those for its other events too.
const (
	oomBurst       = 10
	oomPeriod      = time.Minute
	oomEventPeriod = 20 * time.Minute
)

// systemOOMs reports system OOMs. One goroutine at a time may call report.
type systemOOMs struct {
	event         func(nodestatus.Event)
	limit, events *rate.Limiter
	log           *slog.Logger
	// unreported is the number of system OOMs since the last report.
	unreported int
}

func newSystemOOMs(event func(nodestatus.Event), log *slog.Logger) *systemOOMs {
	return &systemOOMs{
		event: event, log: log,
		limit: rate.NewLimiter(rate.Every(oomPeriod), oomBurst), events: rate.NewLimiter(rate.Every(oomEventPeriod), oomBurst),
	}
}

// report records the kubelet's event of a system OOM. The kubelet too has none for a cgroup's limit, which is in the
// status of the container.
func (s *systemOOMs) report(o kmsg.OOM) {
	if !o.System {
		return
	}
	if !s.limit.Allow() {
		s.unreported++
		return
	}
	s.log.Warn("the machine was out of memory, and the kernel has killed a process", "process", o.Process, "pid", o.PID, "unreported_before", s.unreported)
	s.unreported = 0
	if s.events.Allow() {
		s.event(systemOOM(o))
	}
}

// systemOOM returns the kubelet's event.
func systemOOM(o kmsg.OOM) nodestatus.Event {
	message := "System OOM encountered"
	if o.Process != "" && o.PID != 0 {
		message = fmt.Sprintf("%s, victim process: %s, pid: %d", message, o.Process, o.PID)
	}
	return nodestatus.Event{Type: events.Warning, Reason: "SystemOOM", Message: message}
}

// watchOOMs reports the system OOMs in the kernel's log until ctx ends.
func (n *node) watchOOMs(ctx context.Context) {
	kmsg.New(kmsg.Config{OOM: newSystemOOMs(n.recordNodeEvent, n.log).report, Logger: n.log}).Run(ctx)
}
