package archive

import (
	"bytes"
	"math"
	"testing"
)

// The largest limits that podctl cp takes allow an archive, too.
func TestLargestLimits(t *testing.T) {
	for _, limits := range []Limits{
		{MaxEntries: 1, MaxBytes: math.MaxInt64}, {MaxEntries: math.MaxInt, MaxBytes: 1}, {MaxEntries: math.MaxInt, MaxBytes: math.MaxInt64},
	} {
		p := newPlace(t)
		if o := unpackTo(bytes.NewReader(archived(t, file("d", ""))), "d", limits, p.dest, "d"); o.err != nil || !exists(p.dest, "d") {
			t.Errorf("%+v: %v", limits, o.err)
		}
	}
}
