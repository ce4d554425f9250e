package csi

import (
	"errors"
	"math"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
)

// TestStatsBelieved: a unit with a negative value, and an unknown unit, are left out; an answer that has nothing else is an error.
func TestStatsBelieved(t *testing.T) {
	bytes := func(total, available, used int64) *csipb.VolumeUsage {
		return &csipb.VolumeUsage{Unit: csipb.VolumeUsage_BYTES, Total: total, Available: available, Used: used}
	}
	inodes := &csipb.VolumeUsage{Unit: csipb.VolumeUsage_INODES, Total: 10, Available: 6, Used: 4}
	files := Usage{10, 6, 4}
	for name, tc := range map[string]struct {
		usage []*csipb.VolumeUsage
		want  Stats
		err   error
	}{
		"both units":          {[]*csipb.VolumeUsage{bytes(100, 60, 40), inodes}, Stats{Usage{100, 60, 40}, files}, nil},
		"one unit":            {[]*csipb.VolumeUsage{bytes(100, 60, 40)}, Stats{Bytes: Usage{100, 60, 40}}, nil},
		"nothing":             {nil, Stats{}, errNoUsage},
		"a nil entry":         {[]*csipb.VolumeUsage{nil}, Stats{}, errBadUsage},
		"an unknown unit":     {[]*csipb.VolumeUsage{{Unit: 77, Total: 5}, inodes}, Stats{Inodes: files}, nil},
		"only unknown units":  {[]*csipb.VolumeUsage{{Unit: 77, Total: 5}, {Total: 7}}, Stats{}, errBadUsage},
		"a negative total":    {[]*csipb.VolumeUsage{bytes(-1, 60, 40), inodes}, Stats{Inodes: files}, nil},
		"a negative rest":     {[]*csipb.VolumeUsage{bytes(100, -60, 40), inodes}, Stats{Inodes: files}, nil},
		"a negative use":      {[]*csipb.VolumeUsage{bytes(100, 60, math.MinInt64), inodes}, Stats{Inodes: files}, nil},
		"only negative":       {[]*csipb.VolumeUsage{bytes(-1, -1, -1)}, Stats{}, errBadUsage},
		"the largest numbers": {[]*csipb.VolumeUsage{bytes(math.MaxInt64, math.MaxInt64, math.MaxInt64)}, Stats{Bytes: Usage{math.MaxInt64, math.MaxInt64, math.MaxInt64}}, nil},
		"a unit twice":        {[]*csipb.VolumeUsage{bytes(1, 1, 1), bytes(100, 60, 40)}, Stats{Bytes: Usage{100, 60, 40}}, nil},
		"an empty volume":     {[]*csipb.VolumeUsage{bytes(0, 0, 0)}, Stats{}, nil},
	} {
		got, err := statsOf(tc.usage)
		if got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s: %+v, %v; want %+v, %v", name, got, err, tc.want, tc.err)
		}
	}
}
