package runtime

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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

// The cgroup of a container that never started, and of an old sandbox, is removed before them, and that of a container
// that ran is left to the runtime. A cgroup that can't be removed keeps neither.
func TestCgroupsOfFailedStarts(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a", "fail-start"), sample("b", "exit", "1"))
	var asked []string
	s.with(func(c *Config) {
		c.MaxPerContainer = ptr.To(0)
		c.RemoveCgroup = func(_ context.Context, uid types.UID, id string) error {
			has := s.status(pod)
			if !slices.ContainsFunc(has.Containers, func(c observed.Container) bool { return c.ID == id }) &&
				!slices.ContainsFunc(has.Sandboxes, func(b observed.Sandbox) bool { return b.ID == id }) {
				t.Errorf("%s is gone already", id)
			}
			asked = append(asked, string(uid)+"/"+id)
			return errors.New("busy")
		}
	})
	// The first start of container a is cut short: it stays created.
	failed := false
	s.setFault(func(method string) error {
		if method != "StartContainer" || failed {
			return nil
		}
		failed = true
		return errors.New("cut short")
	})
	made, first := map[string]string{}, ""
	has := s.status(pod)
	for round := range 6 {
		s.sync(pod)
		has = s.status(pod)
		for _, c := range has.Containers {
			made[c.ID] = c.Name
		}
		if round == 2 {
			first = has.Sandboxes[0].ID
			if err := s.Server.KillSandbox(first); err != nil {
				t.Fatal(err)
			}
		}
		s.clock.Step(6 * time.Minute)
	}
	want := []string{"uid-1/" + first}
	for id, name := range made {
		if name == "a" && !slices.ContainsFunc(has.Containers, func(c observed.Container) bool { return c.ID == id }) {
			want = append(want, "uid-1/"+id)
		}
	}
	slices.Sort(want)
	slices.Sort(asked)
	if diff := cmp.Diff(want, asked); diff != "" || len(want) < 4 || len(has.Sandboxes) > 1 {
		t.Errorf("cgroups removed (-want +got):\n%s\n%d sandboxes are left", diff, len(has.Sandboxes))
	}
}
