package walltime

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestReading(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, test := range []struct {
		name     string
		at, want time.Time
	}{
		{"past", now.Add(-time.Minute), now.Add(-time.Minute)},
		{"now", now, now},
		{"future", now.Add(time.Hour), now},
	} {
		if got := Reading(now, test.at); !got.Equal(test.want) {
			t.Errorf("%s: %v; want %v", test.name, got, test.want)
		}
	}
}

// The reading of a wall time is one of the process's clock: setting the wall clock doesn't move it.
func TestReadingIsMonotonic(t *testing.T) {
	now := time.Now()
	wall := now.Round(0).Add(-time.Minute)
	if got := Reading(now, wall); !strings.Contains(got.String(), " m=") {
		t.Errorf("%v has no monotonic reading", got)
	}
}

func TestReadings(t *testing.T) {
	var r Readings
	now := time.Unix(1_000_000, 0)
	of := func(at, want time.Time) {
		t.Helper()
		if got := r.Of("a", now, at); !got.Equal(want) {
			t.Errorf("at %v: the reading of %v is %v; want %v", now, at, got, want)
		}
	}
	future := now.Add(time.Hour)
	first := now
	of(future, first)
	now = now.Add(time.Minute)
	of(future, first) // and not now: the wait from it ends
	of(now.Add(-time.Second), now.Add(-time.Second))
	of(future, now)
	now = now.Add(-time.Hour) // a clock without monotonic readings
	of(future, now)
	if got := r.Keys(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("keys %v", got)
	}
	r.Drop("a")
	if got := r.Keys(); len(got) > 0 {
		t.Errorf("keys %v after Drop", got)
	}
}
