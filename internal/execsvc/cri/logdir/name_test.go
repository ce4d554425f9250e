package logdir

import (
	"slices"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for name, want := range map[string]Rotated{
		"0.log.20260102-030405":         {stamp: "20260102-030405"},
		"0.log.20260102-030405.gz":      {stamp: "20260102-030405", Kind: Compressed},
		"0.log.20260102-030405-012":     {stamp: "20260102-030405", number: 12},
		"0.log.20260102-030405-1000.gz": {stamp: "20260102-030405", number: 1000, Kind: Compressed},
		"0.log.20260102-030405.tmp":     {stamp: "20260102-030405", Kind: Temporary},
	} {
		want.Name = name
		if got, ok := Parse("0.log", name); !ok || got != want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, ok, want)
		}
	}
	for _, name := range []string{
		"0.log", "0.log.", "0.log.1", "0.log.gz", "1.log.20260102-030405", "00.log.20260102-030405", "0.log.20261302-030405", "0.log.20260102-03040",
		"0.log.20260102-030405-1", "0.log.20260102-030405-0", "0.log.20260102-030405-000", "0.log.20260102-030405--01", "0.log.20260102-030405-+01",
		"0.log.20260102-030405x", "0.log.20260102-030405.gz.gz", "0.log.20260102-030405.gz.tmp", "0.log.20260102-030405-99999999999999999999",
	} {
		if got, ok := Parse("0.log", name); ok {
			t.Errorf("%s is taken for %+v", name, got)
		}
	}
}

// Each name is after the one before it, also within a second and after the clock was set back.
func TestNext(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var newest *Rotated
	for i, c := range []struct {
		at   time.Time
		want string
	}{
		{now, "0.log.20260102-030405"},
		{now, "0.log.20260102-030405-001"},
		{now.Add(-time.Hour), "0.log.20260102-030405-002"},
		{now.Add(time.Second), "0.log.20260102-030406"},
	} {
		name := Next("0.log", c.at, newest)
		r, ok := Parse("0.log", name)
		if name != c.want || !ok || newest != nil && !r.After(*newest) {
			t.Errorf("%d: %s, %v; want %s", i, name, ok, c.want)
		}
		newest = &r
	}
}

func TestOrder(t *testing.T) {
	want := []string{
		"0.log.20260102-030405", "0.log.20260102-030405.gz", "0.log.20260102-030405.tmp", "0.log.20260102-030405-001.gz", "0.log.20260102-030405-999",
		"0.log.20260102-030405-1000", "0.log.20260102-030406",
	}
	var list []Rotated
	for _, name := range slices.Backward(want) {
		r, ok := Parse("0.log", name)
		if !ok {
			t.Fatal(name)
		}
		list = append(list, r)
	}
	slices.SortFunc(list, compare)
	for i, r := range list {
		if r.Name != want[i] {
			t.Errorf("%d: %s; want %s", i, r.Name, want[i])
		}
	}
	if n := Newest(list); n.Name != want[6] || Newest(list[2:3]) != nil || Newest(nil) != nil {
		t.Errorf("the newest is %+v", n)
	}
}
