package podconfigd

import (
	"testing"
	"time"

	"github.com/podstream/podstream/internal/sourceconfig"
)

// TestIntervals: a source may be unheard for as long as docs/operate.md says, without the 30 s that each has beyond.
func TestIntervals(t *testing.T) {
	for name, tc := range map[string]struct {
		source sourceconfig.Source
		want   time.Duration
	}{
		"file":    {sourceconfig.Source{File: &sourceconfig.FileSettings{CheckFrequency: 20 * time.Second}}, 40 * time.Second},
		"http":    {sourceconfig.Source{HTTP: &sourceconfig.HTTPSettings{CheckFrequency: 20 * time.Second}}, 40 * time.Second},
		"oci":     {sourceconfig.Source{OCI: &sourceconfig.OCISettings{Interval: time.Minute}}, 2 * time.Minute},
		"api":     {sourceconfig.Source{API: &sourceconfig.APISettings{}}, 30 * time.Second},
		"relay":   {sourceconfig.Source{Relay: &sourceconfig.RelaySettings{}}, 90 * time.Second},
		"applied": {sourceconfig.Source{Applied: &sourceconfig.AppliedSettings{}}, 40 * time.Second},
	} {
		if got := intervalOf(tc.source); got != tc.want {
			t.Errorf("%s: %s; want %s", name, got, tc.want)
		}
	}
}
