package robustness

import "errors"

// Checker checks one promise over a whole history. Check returns nil if the promise is kept, and the first
// breach otherwise.
type Checker struct {
	// Name is the promise's name in podconfig.proto.
	Name  string
	Check func(*Run) error
}

// Checkers are all checkers, in the order of the promises.
func Checkers() []Checker {
	return []Checker{
		{"Ordered", Ordered}, {"Reliable", Reliable}, {"Unique", Unique}, {"Atomic", Atomic}, {"Minimal", Minimal},
		{"Durable", Durable}, {"Resumable", Resumable}, {"Isolated", Isolated}, {"Ready", Ready}, {"Filtered", Filtered},
		{"Forward", Forward},
	}
}

// BreachError is a promise that a history breaks.
type BreachError struct {
	// Promise is the checker's name.
	Promise string
	Err     error
}

func (b *BreachError) Error() string { return b.Promise + ": " + b.Err.Error() }

// Unwrap returns the checker's error.
func (b *BreachError) Unwrap() error { return b.Err }

// Check runs all checkers on a history. The error joins a BreachError for each broken promise.
func Check(h *History) error {
	var breaches []error
	for _, b := range Breaches(h) {
		breaches = append(breaches, b)
	}
	return errors.Join(breaches...)
}

// Breaches returns the promises that a history breaks, in the order of the promises.
func Breaches(h *History) []*BreachError { return NewRun(h).breaches() }

func (r *Run) breaches() []*BreachError {
	var out []*BreachError
	for _, c := range Checkers() {
		if err := c.Check(r); err != nil {
			out = append(out, &BreachError{Promise: c.Name, Err: err})
		}
	}
	return out
}
