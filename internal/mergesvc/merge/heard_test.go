package merge_test

import (
	"errors"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
)

// TestLastHeard: a set without an error updates the last heard time of its source, to the time in the set or
// else to the read time. A failure doesn't.
func TestLastHeard(t *testing.T) {
	m := merge.New([]merge.Source{{Name: "relay"}}, merge.Stored{})
	check := func(when string, want int64) {
		t.Helper()
		if got := m.Sources()[0].LastHeard; want == 0 && !got.IsZero() || want != 0 && got.Unix() != want {
			t.Errorf("%s it was last heard from at %v; want second %d", when, got, want)
		}
	}
	failure := manifest.Set{Source: "relay", ReadTime: time.Unix(9, 0), Err: errors.New("away")}
	m.Apply(failure)
	check("at first", 0)
	m.Apply(mergetest.Set("relay", 10, "a: web()"))
	check("read", 10)
	m.Apply(failure)
	check("failed", 10)
	set := mergetest.Set("relay", 20, "a: web()")
	set.Heard = time.Unix(15, 0)
	m.Apply(set)
	check("with a time of its own", 15)
}
