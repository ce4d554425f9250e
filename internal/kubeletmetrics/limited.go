package kubeletmetrics

import "sync"

// Other is the label of all values beyond a bound.
const Other = "other"

// Limited lets a bounded number of values become labels. It is safe for concurrent use.
type Limited struct {
	most int

	mu   sync.Mutex
	seen map[string]bool
}

// NewLimited returns a Limited for that many values, the first ones that it is asked for.
func NewLimited(most int) *Limited { return &Limited{most: most, seen: map[string]bool{}} }

// Value returns the value if it may become a label, and otherwise Other.
func (l *Limited) Value(value string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.seen[value] {
		if len(l.seen) >= l.most {
			return Other
		}
		l.seen[value] = true
	}
	return value
}
