package failover

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// newBook returns a book of TCP endpoints whose names have the given addresses.
func newBook(key string, listed bool, names map[string][]string, hosts ...string) *book {
	b := &book{listed: listed, key: key, known: map[string][]netip.Addr{}}
	for _, host := range hosts {
		b.endpoints = append(b.endpoints, Endpoint{Text: "tcp://" + host + ":7", Host: host, Port: "7"})
	}
	b.lookup = func(_ context.Context, host string) (out []netip.Addr, err error) {
		addresses, ok := names[host]
		if !ok {
			return nil, errors.New("no such host")
		}
		for _, a := range addresses {
			out = append(out, netip.MustParseAddr(a))
		}
		return out, nil
	}
	return b
}

func texts(candidates []Candidate) (out []string) {
	for _, c := range candidates {
		out = append(out, strings.TrimPrefix(c.Target, "passthrough:///")+" of "+c.Authority)
	}
	return out
}

// TestNames: each address of a name is a candidate, whose certificate has the name. A name that can't be looked up any
// more has its last addresses.
func TestNames(t *testing.T) {
	names := map[string][]string{
		"one": {"10.0.0.1"}, "two": {"10.0.0.2", "10.0.0.3", "::ffff:10.0.0.2", "fd00::2"}, "none": {},
	}
	b := newBook("key", true, names, "one", "two", "none", "absent", "192.0.2.1", "fd00::1")
	check := func() {
		t.Helper()
		candidates, errs := b.candidates(t.Context())
		got := texts(candidates)
		if len(got) == 6 {
			slices.Sort(got[1:4]) // Within a name the order is the client's.
		}
		want := []string{
			"10.0.0.1:7 of one:7", "10.0.0.2:7 of two:7", "10.0.0.3:7 of two:7", "[fd00::2]:7 of two:7",
			"192.0.2.1:7 of 192.0.2.1:7", "[fd00::1]:7 of [fd00::1]:7",
		}
		if !slices.Equal(got, want) {
			t.Errorf("the candidates are %q; want %q", got, want)
		}
		if text := list(errs); text != "tcp://none:7: the name has no address; tcp://absent:7: no such host" {
			t.Errorf("the errors are %q", text)
		}
	}
	check()
	delete(names, "one")
	names["two"] = nil
	check()
	names["two"] = []string{"10.0.0.9"}
	if candidates, _ := b.candidates(t.Context()); !slices.Contains(texts(candidates), "10.0.0.9:7 of two:7") || len(candidates) != 4 {
		t.Errorf("after a change of the name the candidates are %q", texts(candidates))
	}
}

// TestManyAddresses: a name with very many addresses costs no more than some of them, which differ between clients.
func TestManyAddresses(t *testing.T) {
	var many []string
	for i := range 4000 {
		many = append(many, fmt.Sprintf("10.0.%d.%d", i/250, i%250))
	}
	seen := map[string]bool{}
	for key := range 20 {
		candidates, _ := newBook(fmt.Sprint(key), false, map[string][]string{"name": many}, "name").candidates(t.Context())
		if len(candidates) != maxAddresses {
			t.Fatalf("there are %d candidates; want %d", len(candidates), maxAddresses)
		}
		seen[candidates[0].Target] = true
	}
	if len(seen) < 15 {
		t.Errorf("20 clients prefer %d addresses of 4000; want about 20", len(seen))
	}
}

// TestOrder: a list without an order has another one for each client, which doesn't change; a new endpoint takes
// clients from all others, and moves none between these. A list with an order has that.
func TestOrder(t *testing.T) {
	hosts := []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}
	firsts := func(listed bool, hosts ...string) (out []string) {
		for i := range 3000 {
			candidates, _ := newBook(fmt.Sprintf("node-%d", i), listed, nil, hosts...).candidates(t.Context())
			out = append(out, candidates[0].Authority)
		}
		return out
	}
	before := firsts(false, hosts...)
	if err := even(before, 3, 0.1); err != nil {
		t.Error(err)
	}
	if !slices.Equal(before, firsts(false, hosts...)) {
		t.Error("a client's order changes; want that it stays")
	}
	after := firsts(false, append(hosts, "192.0.2.4")...)
	if err := even(after, 4, 0.1); err != nil {
		t.Error(err)
	}
	for i := range after {
		if after[i] != before[i] && after[i] != "192.0.2.4:7" {
			t.Fatalf("a new endpoint moves client %d from %s to %s", i, before[i], after[i])
		}
	}
	if listed := firsts(true, hosts...); even(listed, 1, 0) != nil || listed[0] != "192.0.2.1:7" {
		t.Errorf("with an order the first endpoints are %q; want the first one", slices.Compact(listed))
	}
}

// even returns an error unless the choices are spread over so many values, each with its share but for a part of it.
func even(choices []string, values int, part float64) error {
	counts := map[string]int{}
	for _, c := range choices {
		counts[c]++
	}
	share := float64(len(choices)) / float64(values)
	for _, n := range counts {
		if len(counts) != values || math.Abs(float64(n)-share) > part*share {
			return fmt.Errorf("%d choices are spread as %v; want %d values with %.0f each, within %.0f%%", len(choices), counts, values, share, part*100)
		}
	}
	return nil
}

// TestEven checks the check: it finds choices that aren't even.
func TestEven(t *testing.T) {
	if err := even(strings.Fields("a b c a b c"), 3, 0); err != nil {
		t.Error(err)
	}
	for _, uneven := range []string{"a b a b a b", "a b c a b a", "a b c d a b"} {
		if even(strings.Fields(uneven), 3, 0.2) == nil {
			t.Errorf("%q counts as even", uneven)
		}
	}
}
