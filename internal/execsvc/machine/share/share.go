// Package share bounds how many uses of something there are at once, and divides them among holders, so that no holder
// locks others out.
//
// A place counts for one or more holders: the pod, its namespace and the user of a stream, for example. Of three
// quarters of the places each holder may have at most as many as are free, so one greedy holder gets half of them, the
// next one a quarter. The rest is for holders that have none. The packages of podexecd that serve requests use it. It
// runs no goroutines and never waits.
package share

import (
	"errors"
	"fmt"
	"sync"
)

// ErrFull is returned by Take if the limit is reached.
var ErrFull = errors.New("the limit is reached")

// Error is the error of a holder that has reached its share.
type Error struct {
	// Holder is the holder's name, and Held the number of its places.
	Holder string
	Held   int
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s has %d places, which is its share", e.Holder, e.Held)
}

// Holder is a name that places are counted for.
type Holder struct {
	Name string
	// Most is its maximum of places. Zero: no such bound.
	Most int
	// Fixed is set if only Most counts, and not the number of free places.
	Fixed bool
}

// Pool is a number of places. It is safe for concurrent use.
type Pool struct {
	max int

	mu    sync.Mutex
	taken int
	held  map[string]int
}

// New returns a Pool of that many places.
func New(places int) *Pool { return &Pool{max: places, held: map[string]int{}} }

// Take takes a place for all of the holders, or returns ErrFull or an *Error. The caller calls leave to release it;
// further calls of leave have no effect.
func (p *Pool) Take(holders ...Holder) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	free := p.max - p.taken
	if free <= 0 {
		return nil, ErrFull
	}
	for _, h := range holders {
		if held := p.held[h.Name]; !h.may(held, free-p.reserved()) {
			return nil, &Error{h.Name, held}
		}
	}
	p.taken++
	for _, h := range holders {
		p.held[h.Name]++
	}
	var once sync.Once
	return func() { once.Do(func() { p.leave(holders) }) }, nil
}

// reserved returns how many places are for holders that have none.
func (p *Pool) reserved() int { return p.max / 4 }

// may reports whether a holder with that many places may take another one, if so many are free beside the reserved
// ones.
func (h Holder) may(held, free int) bool {
	if h.Most > 0 && held >= h.Most {
		return false
	}
	return h.Fixed || held == 0 || held < free
}

func (p *Pool) leave(holders []Holder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	for _, h := range holders {
		if p.held[h.Name]--; p.held[h.Name] == 0 {
			delete(p.held, h.Name)
		}
	}
}

// Taken returns how many places are taken, and how many holders there are.
func (p *Pool) Taken() (places, holders int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken, len(p.held)
}
