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
		"0.log.20260102-030405-1000000", "0.log.20260102-030405-9223372036854775807", "0.log.20260102-030405-0001", "0.log.20260102-030405\n", "0.log.20260102-030405-\u0661\u0661\u0661",
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

// The numbers of attempts are plain decimals, and bounded.
func TestAttempt(t *testing.T) {
	for name, want := range map[string]uint32{"0.log": 0, "12.log": 12, "999999.log": 999_999, "3.log.20260102-030405.gz": 3} {
		if got, ok := Attempt(name); got != want || !ok {
			t.Errorf("%s: %d, %v; want %d", name, got, ok, want)
		}
	}
	for _, name := range []string{
		"1000000.log", "2147483646.log", "4294967296.log", "007.log", "+7.log", "-0.log", "7_0.log", "0x7.log", ".log", "7.logs", "7.log.", "7.log.old", "7.log\n", "7",
		"7.log.20260102-030405-1000000",
	} {
		if got, ok := Attempt(name); ok {
			t.Errorf("%s is taken for a log of attempt %d", name, got)
		}
	}
}

// After the last number of a second is the next second. A file with the last possible name is recognized.
func TestLastNames(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, want := range map[string]string{
		"0.log.20260102-030405-999998": "0.log.20260102-030405-999999",
		"0.log.20260102-030405-999999": "0.log.20260102-030406",
		"0.log.20261231-235959-999999": "0.log.20270101-000000",
		"0.log.99991231-235958-999999": "0.log.99991231-235959",
		"0.log.20250102-030405-999999": "0.log.20260102-030405",
	} {
		r, _ := Parse("0.log", name)
		next := Next("0.log", now, &r)
		if got, ok := Parse("0.log", next); next != want || !ok || !got.After(r) || r.Last() {
			t.Errorf("%s: %s, %v, %v; want %s", name, next, ok, r.Last(), want)
		}
	}
	if r, ok := Parse("0.log", "0.log.99991231-235959-999999"); !ok || !r.Last() {
		t.Errorf("the last name: %+v, %v", r, ok)
	}
}
