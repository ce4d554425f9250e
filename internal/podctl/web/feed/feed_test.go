package feed_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/podctl/web/feed"
)

// TestLogReaders: whatever is appended, and whenever a reader reads, it gets each item once and in order, or counts it as missed.
func TestLogReaders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dropped := 0
		log := feed.NewLog(rapid.IntRange(1, 8).Draw(t, "items"), rapid.IntRange(1, 2000).Draw(t, "bytes"), func(int) { dropped++ })
		var at uint64
		appended, next := 0, 1 // next is the item that the reader expects
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "append") {
				appended++
				if n := log.Append(appended, rapid.IntRange(0, 500).Draw(t, "size")); n != uint64(appended) { //nolint:gosec // It isn't negative.
					t.Fatalf("item %d has the number %d", appended, n)
				}
				continue
			}
			items, last, missed, more := log.Read(at, rapid.IntRange(1, 5).Draw(t, "limit"), rapid.IntRange(1, 800).Draw(t, "most"))
			next += int(missed) //nolint:gosec // It is small.
			for _, item := range items {
				if item != next {
					t.Fatalf("the reader gets %d; want %d", item, next)
				}
				next++
			}
			if at = last; int(last) != next-1 || more != (next <= appended) { //nolint:gosec // As above.
				t.Fatalf("after item %d of %d, the reader is at %d, more: %v", next-1, appended, last, more)
			}
			if len(items) == 0 && next <= appended {
				t.Fatal("the reader gets nothing, although there is an item")
			}
		}
		first, last := log.Bounds()
		if int(last) != appended || int(first) != dropped+1 { //nolint:gosec // As above.
			t.Fatalf("the log has %d to %d; want %d to %d", first, last, dropped+1, appended)
		}
		back := log.ReadBack(0, 3, 1<<20)
		if want := min(3, appended-dropped); len(back) != want || want > 0 && back[want-1] != appended {
			t.Fatalf("the last items are %v of %d", back, appended)
		}
	})
}

// TestLogReadBack: pages go back to the first item that is kept, without gaps.
func TestLogReadBack(t *testing.T) {
	log := feed.NewLog[int](100, 1<<20, nil)
	for i := range 25 {
		log.Append(i+1, 10)
	}
	var all []int
	for before := uint64(0); ; {
		page := log.ReadBack(before, 10, 1<<20)
		if len(page) == 0 {
			break
		}
		all = append(page, all...)
		before = uint64(page[0]) //nolint:gosec // It isn't negative.
	}
	if len(all) != 25 || !slices.IsSorted(all) {
		t.Errorf("the pages have %v", all)
	}
	if page := log.ReadBack(1000, 1, 1<<20); len(page) != 1 || page[0] != 25 {
		t.Errorf("before an item that doesn't exist yet there is %v", page)
	}
	if page := log.ReadBack(20, 10, 1); len(page) != 1 || page[0] != 19 {
		t.Errorf("a page of few bytes has %v; want one item", page)
	}
}

// row is a row of the tests.
type row struct{ key, value string }

func newTable() *feed.Table[row] {
	return feed.NewTable(func(a, b row) bool { return a == b }, func(r row) int { return len(r.value) })
}

// TestTableReaders: whatever changes, and whenever a reader reads, applying what it gets leads to the rows of the table.
func TestTableReaders(t *testing.T) {
	keys := []string{"a", "b", "c", "d"}
	rapid.Check(t, func(t *rapid.T) {
		table, want := newTable(), map[string]row{}
		held, at := map[string]row{}, uint64(0)
		read := func() bool {
			c := table.Read(at, rapid.IntRange(1, 3).Draw(t, "rows"), rapid.IntRange(1, 400).Draw(t, "bytes"))
			if c.Reset {
				clear(held)
			}
			for _, key := range c.Removed {
				delete(held, key)
			}
			for i, r := range c.Rows {
				if c.Keys[i] != r.key {
					t.Fatalf("row %v has the key %s", r, c.Keys[i])
				}
				held[r.key] = r
			}
			if c.Version == at && !c.Empty() {
				t.Fatalf("the version doesn't move although there is %v", c)
			}
			at = c.Version
			return c.More
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			key := rapid.SampledFrom(keys).Draw(t, "key")
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				r := row{key, rapid.SampledFrom([]string{"1", "2"}).Draw(t, "value")}
				table.Put(key, r)
				want[key] = r
			case 1:
				table.Remove(key)
				delete(want, key)
			case 2:
				all := map[string]row{key: {key, "r"}}
				table.Replace(all)
				want = maps.Clone(all)
			default:
				read()
			}
		}
		for read() {
		}
		if !maps.Equal(held, want) || !maps.Equal(table.Rows(), want) || table.Len() != len(want) {
			t.Fatalf("the reader has %v, and the table %v; want %v", held, table.Rows(), want)
		}
		if c := table.Read(at, 10, 1000); !c.Empty() {
			t.Fatalf("then there is %v", c)
		}
	})
}

// TestTableForgets: a reader that is behind the removals that are kept starts again.
func TestTableForgets(t *testing.T) {
	table := newTable()
	table.Put("stays", row{"stays", "1"})
	at := table.Read(0, 10, 1000).Version
	for i := range 10_000 {
		key := fmt.Sprint(i)
		table.Put(key, row{key, ""})
		table.Remove(key)
	}
	c := table.Read(at, 10, 1000)
	if !c.Reset || len(c.Rows) != 1 || len(c.Removed) != 0 {
		t.Errorf("after 10,000 removals the reader gets %v; want a reset", c)
	}
	if c := table.Read(c.Version+100, 10, 1000); !c.Reset {
		t.Errorf("a version that doesn't exist gets %v; want a reset", c)
	}
}

// TestFollow: a follower is woken by each change, and not by what changes nothing; a writer doesn't wait for it.
func TestFollow(t *testing.T) {
	table, log, value := newTable(), feed.NewLog[int](10, 1000, nil), feed.NewValue(1)
	woken := make(chan struct{}, 1)
	for name, tc := range map[string]struct {
		follow func(chan<- struct{}) func()
		change func()
	}{
		"table":   {table.Follow, func() { table.Put("a", row{"a", fmt.Sprint(table.Read(0, 1, 1).Version)}) }},
		"removal": {table.Follow, func() { table.Put("b", row{}); table.Remove("b") }},
		"log":     {log.Follow, func() { log.Append(1, 1) }},
		"value":   {value.Follow, func() { value.Set(2) }},
	} {
		stop, stopAgain := tc.follow(woken), tc.follow(woken)
		tc.change()
		tc.change()
		select {
		case <-woken:
		default:
			t.Errorf("%s: the follower isn't woken", name)
		}
		stop()
		tc.change()
		select {
		case <-woken:
		default:
			t.Errorf("%s: the follower that followed twice isn't woken after it stopped once", name)
		}
		stopAgain()
		tc.change()
		select {
		case <-woken:
			t.Errorf("%s: the follower is woken after it stopped", name)
		default:
		}
	}
	stop := table.Follow(woken)
	defer stop()
	table.Put("same", row{"same", "1"})
	<-woken
	table.Put("same", row{"same", "1"})
	table.Remove("none")
	table.Replace(table.Rows())
	select {
	case <-woken:
		t.Error("the follower is woken by what changes nothing")
	default:
	}
	if _, ok := table.Get("none"); ok {
		t.Error("a row that doesn't exist is found")
	}
	if keys := table.Keys(1 << 40); !slices.Contains(keys, "same") {
		t.Errorf("the keys are %v", keys)
	}
}
