package robustness

import (
	"fmt"
	"strings"
	"time"
)

// Isolated (G8) checks that a slow or dead consumer never delays a merge or another consumer.
func Isolated(r *Run) error {
	patience := r.History.patience()
	for i, step := range r.History.Steps {
		if step.Set == nil && step.Configure == nil || step.Killed {
			continue
		}
		if step.Ended.IsZero() {
			return r.broken(i, "the merge never ended%s", r.stalledBy(step.Begun, step.Begun.Add(patience)))
		}
		if took := step.Ended.Sub(step.Begun); took > patience {
			return r.broken(i, "the merge took %v%s", took, r.stalledBy(step.Begun, step.Ended))
		}
	}
	for _, p := range r.passages {
		if p.kind != exact || p.moment == nil || p.moment.step.Start != nil {
			continue
		}
		// The consumer may have started to wait after the revision was published.
		due := p.moment.step.Ended
		if due.Before(p.stream.Begun) {
			due = p.stream.Begun
		}
		came := p.unit.messages[len(p.unit.messages)-1].At
		if late := came.Sub(due); late > patience && !p.stream.stalled(due.Add(-patience), came) {
			return p.broken("revision %d came %v after it was published%s", p.to(), late, r.stalledBy(due, came))
		}
	}
	return nil
}

// stalledBy names the consumers that didn't read at that time.
func (r *Run) stalledBy(from, to time.Time) string {
	var names []string
	for _, c := range r.History.Consumers {
		for _, s := range c.Streams {
			if s.stalled(from, to) {
				names = append(names, c.Name)
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("; meanwhile %s didn't read", strings.Join(names, ", "))
}
