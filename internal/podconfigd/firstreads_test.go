package podconfigd

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sourceconfig"
)

// TestFirstReads: TCP waits until each source was read, or has failed, for a bounded time; sets of others and second ones
// don't count.
func TestFirstReads(t *testing.T) {
	for name, tc := range map[string]struct {
		sources []string
		sets    []manifest.Set
		want    time.Duration
	}{
		"none":           {want: 0},
		"all":            {[]string{"file", "api"}, []manifest.Set{{Source: "file"}, {Source: "api"}}, 2 * time.Second},
		"one fails":      {[]string{"file", "api"}, []manifest.Set{{Source: "file", Err: errors.New("gone")}, {Source: "api"}}, 2 * time.Second},
		"one is missing": {[]string{"file", "api"}, []manifest.Set{{Source: "file"}, {Source: "file"}, {Source: "other"}}, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sources []sourceconfig.Source
				for _, s := range tc.sources {
					sources = append(sources, sourceconfig.Source{Name: s})
				}
				f := newFirstReads(sources)
				began := time.Now()
				var applied atomic.Int32
				apply := f.after(func(manifest.Set) { applied.Add(1) })
				for i, set := range tc.sets {
					time.AfterFunc(time.Duration(i+1)*time.Second, func() { apply(set) })
				}
				<-f.within(t.Context(), 10*time.Second)
				if took := time.Since(began); took != tc.want {
					t.Errorf("TCP waits for %v; want %v", took, tc.want)
				}
				time.Sleep(time.Minute)
				if applied.Load() != int32(len(tc.sets)) { //nolint:gosec // A few.
					t.Errorf("%d sets were applied; want all of %d", applied.Load(), len(tc.sets))
				}
			})
		})
	}
	t.Run("ends", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		<-newFirstReads([]sourceconfig.Source{{Name: "file"}}).within(ctx, time.Hour)
	})
}
