package robustness

import (
	"math/rand/v2"
	"sync"

	"pgregory.net/rapid"
)

// chance makes the random decisions of a simulation.
type chance interface {
	// intn returns a number from 0 to n-1. Small numbers may be more likely, so common and simple cases come
	// first.
	intn(n int, what string) int
}

// oneIn reports whether something happens that has a chance of one in n.
func oneIn(c chance, n int, what string) bool { return c.intn(n, what) == n-1 }

// pick returns one of several values.
func pick[E any](c chance, what string, from ...E) E { return from[c.intn(len(from), what)] }

// drawn takes its decisions from a rapid test, which can be replayed and shrunk.
type drawn struct{ t *rapid.T }

// ranges are rapid's generators, by n.
var ranges sync.Map

func (d drawn) intn(n int, what string) int {
	if n <= 1 {
		return 0
	}
	g, ok := ranges.Load(n)
	if !ok {
		g, _ = ranges.LoadOrStore(n, rapid.IntRange(0, n-1))
	}
	return g.(*rapid.Generator[int]).Draw(d.t, what)
}

// dice can't be replayed. It is for runs that depend on timing anyway.
type dice struct{ *rand.Rand }

func (d dice) intn(n int, _ string) int { return d.IntN(n) }
