package robustness

import (
	"math/rand/v2"
	"sync"

	"pgregory.net/rapid"
)

// chance is what a simulation leaves to chance.
type chance interface {
	// intn is a number from 0 to n-1. The small ones may be more likely, so what is common, and what is simple, comes
	// first.
	intn(n int, what string) int
}

// oneIn reports whether something happens that happens once in n times.
func oneIn(c chance, n int, what string) bool { return c.intn(n, what) == n-1 }

// pick is one of several.
func pick[E any](c chance, what string, from ...E) E { return from[c.intn(len(from), what)] }

// drawn is the chance of a rapid test, which can be replayed and shrunk.
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

// dice is a chance that can't be replayed: for what depends on the time of day anyway.
type dice struct{ *rand.Rand }

func (d dice) intn(n int, _ string) int { return d.IntN(n) }
