package survival

import (
	"errors"
	"fmt"
	"time"
)

// Checker checks one demand over a whole history. Check returns every breach.
type Checker struct {
	Name  string
	Check func(*History) []error
}

// Checkers are all checkers.
func Checkers() []Checker {
	return []Checker{{"Once", Once}, {"Clean", Clean}, {"Unharmed", Unharmed}, {"Grace", Grace}, {"Steady", Steady}}
}

// BreachError is a demand that a history doesn't meet.
type BreachError struct {
	// Checker is the checker's name.
	Checker string
	Err     error
}

func (b *BreachError) Error() string { return b.Checker + ": " + b.Err.Error() }

// Unwrap is what the checker said.
func (b *BreachError) Unwrap() error { return b.Err }

// Breaches asks every checker.
func Breaches(h *History) []*BreachError {
	var out []*BreachError
	for _, c := range Checkers() {
		for _, err := range c.Check(h) {
			out = append(out, &BreachError{c.Name, err})
		}
	}
	return out
}

// Settled is nil if the look is one that the node can rest at: then it is a quiet point.
func Settled(h *History, look *Look) error {
	return errors.Join(errors.Join(onceAt(h, look)...), errors.Join(cleanAt(h, look)...))
}

// clock is a time as breaches tell it.
func clock(t time.Time) string { return t.Format("15:04:05.000") }

// podErr is a breach of one pod.
func podErr(p Plan, format string, args ...any) error {
	return fmt.Errorf("pod %s (%s, %s): %s", p.Name, p.UID, p.Policy, fmt.Sprintf(format, args...))
}
