package removals

import "time"

// span is the time in which at most limit removals may happen.
const span = time.Minute

// window has the removals of the last minute. Of any minute, it allows limit removals and not one more.
type window struct {
	limit int
	// times are the removals, the earliest first.
	times []time.Time
}

// newWindow returns a window with removals of before a restart. Their times are of a clock that may have been set since:
// one in the future counts as now.
func newWindow(limit int, past []time.Time, now time.Time) window {
	w := window{limit: limit}
	for _, t := range past {
		// now has a monotonic reading, and the result has it too.
		if ago := max(now.Round(0).Sub(t.Round(0)), 0); ago < span {
			w.times = append(w.times, now.Add(-ago))
		}
	}
	return w
}

// wait returns how long the next removal has to wait. Zero: it may happen now.
func (w *window) wait(now time.Time) time.Duration {
	for len(w.times) > 0 && now.Sub(w.times[0]) >= span {
		w.times = w.times[1:]
	}
	if len(w.times) < w.limit {
		return 0
	}
	return span - now.Sub(w.times[len(w.times)-w.limit])
}

// take counts a removal that happens now.
func (w *window) take(now time.Time) { w.times = append(w.times, now) }
