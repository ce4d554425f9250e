package robustness

import (
	"fmt"
)

// Resumable (G7) checks that the consumer converges from any cursor, on the same stream and without an error.
func Resumable(r *Run) error {
	synced := map[*Stream]*passage{}
	views := map[*Stream]string{}
	for _, p := range r.passages {
		if p.unit.synced() {
			if synced[p.stream] != nil {
				return p.broken("the stream is synced a second time")
			}
			synced[p.stream] = p
		}
		if c := p.unit.cursor; c != nil && !p.unit.mixed() {
			if v, ok := views[p.stream]; ok && v != c.GetView() {
				return p.broken("the cursor's view is %s; it was %s before on this stream", c.GetView(), v)
			}
			views[p.stream] = c.GetView()
		}
		if p.kind.catchUp() && len(p.faults) > 0 {
			return p.broken("after the catch-up to revision %d %v", p.to(), p.faults[0])
		}
	}
	for _, c := range r.History.Consumers {
		for i, s := range c.Streams {
			where := fmt.Sprintf("consumer %s, stream %d in life %d (%s)", c.Name, i+1, s.Life, ask(s.Request))
			if s.Err != nil {
				return fmt.Errorf("%s: the daemon ended it: %w", where, s.Err)
			}
			if s.Drained && synced[s] == nil {
				return fmt.Errorf("%s: it was read to the end and never synced", where)
			}
		}
	}
	return nil
}
