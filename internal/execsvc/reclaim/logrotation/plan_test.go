package logrotation

import (
	"slices"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/execsvc/cri/logdir"
)

func TestPlan(t *testing.T) {
	const a, b, c, d = "l.20260101-000001", "l.20260101-000002", "l.20260101-000003", "l.20260101-000004"
	for name, tc := range map[string]struct {
		files            []string
		keep             int
		busy             string
		remove, compress []string
		newest           string
	}{
		"no file":                              {keep: 3},
		"the newest stays as it is":            {files: []string{a}, keep: 3, newest: a},
		"the newest but one is first":          {files: []string{a, b, c, d}, keep: 4, compress: []string{c, b, a}, newest: d},
		"compressed ones stay":                 {files: []string{a + ".gz", b + ".gz", c, d}, keep: 4, compress: []string{c}, newest: d},
		"the oldest are removed":               {files: []string{a, b + ".gz", c, d}, keep: 2, remove: []string{a, b + ".gz"}, compress: []string{c}, newest: d},
		"two files are a log and its rotation": {files: []string{a, b}, keep: 0, remove: []string{a, b}, newest: b},
		"never below zero":                     {files: []string{a}, keep: -1, remove: []string{a}, newest: a},
		"a temporary file is left over":        {files: []string{a, a + ".tmp", b}, keep: 3, remove: []string{a + ".tmp"}, compress: []string{a}, newest: b},
		"a temporary file is written":          {files: []string{a, a + ".tmp", b}, keep: 3, busy: a + ".tmp", compress: []string{a}, newest: b},
		"a log beside its compressed file":     {files: []string{a, a + ".gz", b, c}, keep: 2, remove: []string{a, a + ".gz"}, compress: []string{b}, newest: c},
		"the last possible name":               {files: []string{a, "l.99991231-235959-999999", "l.99991231-235959-999999.gz"}, keep: 3, remove: []string{"l.99991231-235959-999999.gz", "l.99991231-235959-999999"}, newest: a},
		"only a temporary file":                {files: []string{a + ".tmp"}, keep: 2, remove: []string{a + ".tmp"}},
	} {
		var list []logdir.Rotated
		for _, f := range tc.files {
			r, ok := logdir.Parse("l", f)
			if !ok {
				t.Fatal(f)
			}
			list = append(list, r)
		}
		p := planFor(list, tc.keep, tc.busy)
		var compress []string
		for _, r := range p.compress {
			compress = append(compress, r.Name)
		}
		newest := ""
		if p.newest != nil {
			newest = p.newest.Name
		}
		if !slices.Equal(p.remove, tc.remove) || !slices.Equal(compress, tc.compress) || newest != tc.newest {
			t.Errorf("%s: remove %q, compress %q, newest %q; want %q, %q, %q", name, p.remove, compress, newest, tc.remove, tc.compress, tc.newest)
		}
	}
}

// TestSlowLogsAreLookedAtTogether: the next looks at logs that don't grow are at one time, and no later than the pause allows.
func TestSlowLogsAreLookedAtTogether(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	slow, fast := pace{known: true}, pace{known: true, rate: 10 << 20}
	want := start.Add(time.Second)
	for _, ms := range []int{0, 1, 400, 999} {
		now := start.Add(time.Duration(ms) * time.Millisecond)
		if got := slow.next(now, 10<<20, 10*time.Second, 50); !got.Equal(want) {
			t.Errorf("after %d ms the next look is at %v; want %v", ms, got, want)
		}
		if got := fast.next(now, 10<<20, 10*time.Second, 50); !got.Equal(now.Add(fast.pause(10<<20, 10*time.Second, 50))) {
			t.Errorf("after %d ms the next look at a log that grows is at %v", ms, got)
		}
	}
}
