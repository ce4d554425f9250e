package survival

import (
	"errors"
	"fmt"
	"time"
)

// Checker checks one promise over a whole history. Check returns every breach.
type Checker struct {
	Name  string
	Check func(*History) []error
}

// Checkers are all checkers.
func Checkers() []Checker {
	return []Checker{{"Once", Once}, {"Clean", Clean}, {"Unharmed", Unharmed}, {"Grace", Grace}, {"Steady", Steady}}
}

// BreachError is a promise that a history breaks.
type BreachError struct {
	// Checker is the checker's name.
	Checker string
	Err     error
}

func (b *BreachError) Error() string { return b.Checker + ": " + b.Err.Error() }

// Unwrap returns the checker's error.
func (b *BreachError) Unwrap() error { return b.Err }

// Breaches runs all checkers.
func Breaches(h *History) []*BreachError {
	var out []*BreachError
	for _, c := range Checkers() {
		for _, err := range c.Check(h) {
			out = append(out, &BreachError{c.Name, err})
		}
	}
	return out
}

// Settled returns nil if the node has reached its final state at the look, which is then a quiet point.
func Settled(h *History, look *Look) error {
	return errors.Join(errors.Join(onceAt(h, look)...), errors.Join(cleanAt(h, look)...))
}

// clock formats a time as breaches show it.
func clock(t time.Time) string { return t.Format("15:04:05.000") }

// podErr returns a breach of one pod.
func podErr(p Plan, format string, args ...any) error {
	return fmt.Errorf("pod %s (%s, %s): %s", p.Name, p.UID, p.Policy, fmt.Sprintf(format, args...))
}
