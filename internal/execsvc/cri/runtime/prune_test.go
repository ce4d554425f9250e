package runtime

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// crash restarts the container that often, at once.
func (s *sim) crash(pod *v1.Pod, times int) {
	s.t.Helper()
	s.mustSync(pod)
	for range times {
		s.exit(pod, "a", 1)
		s.clock.Step(6 * time.Minute)
		s.mustSync(pod)
	}
	s.sync(pod)
}

// attempts are those of container "a" that are left.
func (s *sim) attempts(pod *v1.Pod) []uint32 {
	s.t.Helper()
	var out []uint32
	for _, c := range s.status(pod).Containers {
		if c.Name == "a" {
			out = append(out, c.Attempt)
		}
	}
	slices.Sort(out)
	return out
}

func TestPruneByConfig(t *testing.T) {
	for name, tc := range map[string]struct {
		config Config
		want   []uint32
	}{
		"default": {Config{}, []uint32{3, 4}},
		"none":    {Config{MaxPerContainer: ptr.To(0)}, []uint32{4}},
		"two":     {Config{MaxPerContainer: ptr.To(2)}, []uint32{2, 3, 4}},
		"all":     {Config{MaxPerContainer: ptr.To(-1)}, []uint32{0, 1, 2, 3, 4}},
		"by age":  {Config{MaxPerContainer: ptr.To(0), MinAge: 7 * time.Minute}, []uint32{3, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t)
			s.with(func(c *Config) { c.MaxPerContainer, c.MinAge = tc.config.MaxPerContainer, tc.config.MinAge })
			pod := simPod(sample("a"))
			s.crash(pod, 4)
			if diff := cmp.Diff(tc.want, s.attempts(pod)); diff != "" {
				t.Errorf("attempts (-want +got):\n%s", diff)
			}
			// Its end must be known, whatever is kept.
			s.exit(pod, "a", 1)
			s.sync(pod)
			s.wantContainer(pod, "a", observed.Exited, 4)
		})
	}
}
