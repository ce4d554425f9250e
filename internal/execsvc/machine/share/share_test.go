package share_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/podstream/podstream/internal/execsvc/machine/share"
)

// greedy takes places for a holder until it gets no more.
func greedy(p *share.Pool, holders ...share.Holder) (leave []func(), err error) {
	for {
		l, err := p.Take(holders...)
		if err != nil {
			return leave, err
		}
		leave = append(leave, l)
	}
}

// TestShares: however greedy the holders are, there is a place for one that has none, and a released place is free
// again.
func TestShares(t *testing.T) {
	p := share.New(100)
	a, err := greedy(p, share.Holder{Name: "a"})
	var full *share.Error
	if len(a) != 38 || !errors.As(err, &full) || full.Holder != "a" || full.Held != 38 {
		t.Errorf("one greedy holder has %d places, %v; want 38 and an error that names it", len(a), err)
	}
	b, _ := greedy(p, share.Holder{Name: "b"})
	c, _ := greedy(p, share.Holder{Name: "c"})
	if len(b) != 19 || len(c) != 9 {
		t.Errorf("the next ones have %d and %d; want half of what is free each time", len(b), len(c))
	}
	var many []func()
	for i := range 10 {
		m, _ := greedy(p, share.Holder{Name: fmt.Sprint("many ", i)})
		many = append(many, m...)
	}
	leave, err := p.Take(share.Holder{Name: "victim"})
	if err != nil {
		t.Fatalf("one that holds nothing: %v; want a place", err)
	}
	leave()
	leave()
	for _, l := range slices.Concat(a, b, c, many) {
		l()
	}
	if places, holders := p.Taken(); places != 0 || holders != 0 {
		t.Errorf("%d places of %d holders are taken after all have left", places, holders)
	}
}

// TestTwoHolders: a place counts for each of its holders, and the error names the one that has reached its share.
func TestTwoHolders(t *testing.T) {
	p := share.New(100)
	namespace := share.Holder{Name: "namespace"}
	one, err := greedy(p, share.Holder{Name: "pod", Most: 10}, namespace)
	var full *share.Error
	if len(one) != 10 || !errors.As(err, &full) || full.Holder != "pod" {
		t.Errorf("a pod has %d places, %v; want its 10", len(one), err)
	}
	rest, err := greedy(p, share.Holder{Name: "other pod"}, namespace)
	if len(rest) != 28 || !errors.As(err, &full) || full.Holder != "namespace" || full.Held != 38 {
		t.Errorf("another pod of the namespace has %d places, %v; want the 28 that are left of the namespace's share", len(rest), err)
	}
}

// TestFixed: a holder with a number of its own isn't bound by what is free, but by the Pool.
func TestFixed(t *testing.T) {
	p := share.New(10)
	if got, err := greedy(p, share.Holder{Name: "network", Most: 8, Fixed: true}); len(got) != 8 || err == nil {
		t.Errorf("it has %d, %v; want 8", len(got), err)
	}
	if got, err := greedy(p); len(got) != 2 || !errors.Is(err, share.ErrFull) {
		t.Errorf("without a holder there are %d more, %v; want 2, and ErrFull", len(got), err)
	}
}
