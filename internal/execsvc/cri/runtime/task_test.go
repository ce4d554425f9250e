package runtime

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// taskKeeper makes the simulated runtime act as containerd after a StartContainer that was cut short: it doesn't start
// containers, and doesn't remove one before its task is deleted. keeps says whether it still has a task.
type taskKeeper struct {
	keeps   bool
	deleted []string
	fails   error
}

func keepTask(s *sim) *taskKeeper {
	k := &taskKeeper{keeps: true}
	s.with(func(c *Config) {
		c.DeleteTask = func(_ context.Context, id string) error {
			k.deleted = append(k.deleted, id)
			if k.fails == nil {
				k.keeps = false
			}
			return k.fails
		}
	})
	s.setFault(func(method string) error {
		switch {
		case method == "StartContainer" && k.keeps:
			return status.Error(codes.Unknown, "failed to create containerd task: failed to get task pid: context canceled")
		case method == "RemoveContainer" && k.keeps:
			return status.Error(codes.FailedPrecondition, "cannot delete running task")
		}
		return nil
	})
	return k
}

// A container whose start was cut short is replaced although containerd keeps its task (containerd issue 11037). While
// the task can't be deleted, it stays, and the error gives both reasons.
func TestTaskOfInterruptedStart(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	keeper := keepTask(s)
	s.sync(pod)
	first := s.wantContainer(pod, "a", observed.Created, 0)
	keeper.fails = errors.New("the shim doesn't answer")
	res := s.sync(pod)
	if res.Err == nil || !strings.Contains(res.Err.Error(), "cannot delete running task") || !strings.Contains(res.Err.Error(), "the shim doesn't answer") {
		t.Errorf("error %v; want that of the removal and of the task", res.Err)
	}
	if has := s.status(pod); len(has.Containers) != 1 || has.Containers[0].ID != first.ID {
		t.Fatalf("containers %+v; want only %s", has.Containers, first.ID)
	}
	keeper.fails = nil
	s.mustSync(pod)
	if a := s.wantContainer(pod, "a", observed.Running, 0); a.ID == first.ID || len(s.status(pod).Containers) != 1 {
		t.Errorf("containers %+v", s.status(pod).Containers)
	}
	if want := []string{first.ID, first.ID}; !slices.Equal(keeper.deleted, want) {
		t.Errorf("deleted the tasks of %q; want %q", keeper.deleted, want)
	}
}

// The pod of such a container can be removed too.
func TestPurgeWithTask(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"), sample("b"))
	keeper := keepTask(s)
	s.sync(pod)
	has := s.status(pod)
	if err := s.Purge(t.Context(), pod, has); err != nil {
		t.Fatal(err)
	}
	s.wantListed()
	if len(has.Containers) != 2 || !slices.Equal(keeper.deleted, []string{has.Containers[0].ID}) {
		t.Errorf("deleted the tasks of %q; want that of the first of %+v", keeper.deleted, has.Containers)
	}
}

// No task is deleted of a container that ran, nor for another reason of the runtime.
func TestTasksThatStay(t *testing.T) {
	for name, tc := range map[string]struct {
		ran  bool
		code codes.Code
	}{
		"the container ran":      {true, codes.FailedPrecondition},
		"the start is under way": {false, codes.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t)
			pod := simPod(sample("a"))
			pod.Spec.RestartPolicy = v1.RestartPolicyNever
			keeper := keepTask(s)
			keeper.keeps = !tc.ran
			s.sync(pod)
			if tc.ran {
				s.exit(pod, "a", 0)
			}
			s.setFault(func(method string) error {
				if method == "RemoveContainer" {
					return status.Error(tc.code, "not now")
				}
				return nil
			})
			if err := s.Purge(t.Context(), pod, s.status(pod)); status.Code(errors.Unwrap(err)) != tc.code || len(keeper.deleted) > 0 {
				t.Errorf("Purge: %v; deleted the tasks of %q, want none", err, keeper.deleted)
			}
		})
	}
}
