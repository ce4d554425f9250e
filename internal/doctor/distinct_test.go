package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// table has the address of the instance of each open descriptor, as kcmp compares them.
type table map[instance]int

func (o table) compare(a, b instance) (int, error) {
	x, open := o[a]
	y, also := o[b]
	if !open || !also {
		return 0, unix.EBADF
	}
	return cmp.Compare(x, y), nil
}

// shared returns 400 descriptors of 40 processes, in a random order: each process has the same ten instances.
func shared(random *rand.Rand) (table, []instance) {
	open := table{}
	var all []instance
	for pid := range 40 {
		for fd := range 10 {
			i := instance{pid, fd}
			open[i] = fd
			all = append(all, i)
		}
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return open, all
}

// Descriptors that are closed while they are compared make no instance count twice.
func TestDescriptorsThatVanish(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // Not for secrets.
		open, all := shared(random)
		for range 50 { // closed before the first comparison
			delete(open, all[random.IntN(len(all))])
		}
		calls := 0
		closing := func(a, b instance) (int, error) {
			if calls++; calls%20 == 0 && calls < 1200 {
				delete(open, all[random.IntN(len(all))])
			}
			return open.compare(a, b)
		}
		one, exact, err := distinct(t.Context(), all, closing)
		addresses := map[int]bool{}
		for _, i := range one {
			if address, still := open[i]; still {
				addresses[address] = true
			} else {
				t.Errorf("seed %d: %v counts, and is closed", seed, i)
			}
		}
		if err != nil || !exact || len(addresses) != len(one) {
			t.Fatalf("seed %d: of 10 instances %d count, %d of them different; exact: %v, error %v", seed, len(one), len(addresses), exact, err)
		}
	}
}

// If descriptors get other instances all the time, the number is an upper bound, or right.
func TestDescriptorsThatAreUsedAgain(t *testing.T) {
	inexact := 0
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // Not for secrets.
		open, all := shared(random)
		one, exact, err := distinct(t.Context(), all, func(a, b instance) (int, error) {
			open[instance{random.IntN(2), 5}] = random.IntN(1000)
			return open.compare(a, b)
		})
		if err != nil || exact && len(one) > 12 {
			t.Fatalf("seed %d: %d instances count, exact: %v, error %v; want at most 12", seed, len(one), exact, err)
		}
		if !exact {
			inexact++
		}
	}
	t.Logf("%d of 200 were upper bounds", inexact)
}

// The check ends with its context, in each of its loops.
func TestInotifyEndsWithItsContext(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	open, all := shared(rand.New(rand.NewPCG(1, 3))) //nolint:gosec // Not for secrets.
	if _, _, err := distinct(ended, all, open.compare); !errors.Is(err, context.Canceled) {
		t.Errorf("comparing: %v", err)
	}
	n := newNode(t)
	n.link("proc/4711/fd/5", "anon_inode:inotify")
	e := &examination{n.config}
	if _, _, err := e.instances(ended, usualBounds); !errors.Is(err, context.Canceled) {
		t.Errorf("reading: %v", err)
	}
	if found := e.inotify(ended); len(found) != 1 || found[0].State != Skipped {
		t.Errorf("the findings are %v; want it skipped", found)
	}
}

// Only so many descriptors are looked at, and the finding says so.
func TestManyDescriptors(t *testing.T) {
	n := newNode(t)
	n.write("proc/sys/fs/inotify/max_user_instances", "1000\n")
	for fd := range 12 {
		n.link(fmt.Sprintf("proc/4711/fd/%d", fd), "anon_inode:inotify")
	}
	for name, c := range map[string]struct {
		descriptors, instances int
		want                   string
	}{
		"all":             {13, 13, "have at most 12 of 1000 instances"},
		"few instances":   {100, 7, "have about 7 of 1000 instances (there are more descriptors than are looked at)"},
		"few descriptors": {5, 100, "have about 5 of 1000 instances (there are more descriptors than are looked at)"},
	} {
		e := &examination{n.config}
		found := e.inotifyUpTo(t.Context(), bounds{descriptors: c.descriptors, instances: c.instances})
		if len(found) == 0 || !strings.Contains(found[0].Found, c.want) {
			t.Errorf("%s: %v; want %q", name, found, c.want)
		}
	}
}
