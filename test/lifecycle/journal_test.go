package lifecycle

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// journal is what podexecd has reported of each pod, by the pod's name without the node's suffix.
type journal struct {
	suffix string

	mu     sync.Mutex
	states map[string][]state
	events map[string][]*podexecv1.PodEvent
	// there are the pods that podexecd has, by UID; reported are those that the present stream has reported.
	there, reported map[string]*podconfigv1.PodRef
}

func newJournal(suffix string) *journal {
	return &journal{
		suffix: suffix, states: map[string][]state{}, events: map[string][]*podexecv1.PodEvent{}, there: map[string]*podconfigv1.PodRef{},
	}
}

// follow follows podexecd's streams, through its restarts, until ctx ends; the function returned waits for that.
func (j *journal) follow(ctx context.Context, client podexecv1.PodExecServiceClient) (wait func()) {
	var group sync.WaitGroup
	group.Go(func() {
		for token := ""; ctx.Err() == nil; {
			stream, err := client.WatchPodStatus(ctx, &podexecv1.WatchPodStatusRequest{
				Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, ResumeToken: token,
			})
			j.begin()
			for err == nil {
				var msg *podexecv1.WatchPodStatusResponse
				if msg, err = stream.Recv(); err == nil {
					j.take(msg)
					token = msg.GetResumeToken()
				}
			}
			pause(ctx)
		}
	})
	group.Go(func() {
		for ctx.Err() == nil {
			stream, err := client.WatchEvents(ctx, &podexecv1.WatchEventsRequest{Follow: true})
			for err == nil {
				var msg *podexecv1.WatchEventsResponse
				if msg, err = stream.Recv(); err == nil {
					j.takeEvent(msg.GetEvent())
				}
			}
			pause(ctx)
		}
	})
	return group.Wait
}

// pause keeps a stream that is refused from being asked for all the time.
func pause(ctx context.Context) {
	select {
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
	}
}

func (j *journal) begin() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reported = map[string]*podconfigv1.PodRef{}
}

func (j *journal) take(msg *podexecv1.WatchPodStatusResponse) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case msg.GetPod() != nil:
		ref := msg.GetPod().GetRef()
		j.there[ref.GetUid()], j.reported[ref.GetUid()] = ref, ref
		j.add(ref, newState(msg.GetPod()))
	case msg.GetRemoved() != nil:
		j.remove(msg.GetRemoved())
	case msg.GetSynced() != nil && !msg.GetSynced().GetResumed():
		for uid, ref := range j.there {
			if j.reported[uid] == nil {
				j.remove(ref)
			}
		}
	}
}

// remove is to be called with mu held.
func (j *journal) remove(ref *podconfigv1.PodRef) {
	delete(j.there, ref.GetUid())
	j.add(ref, state{reported: time.Now(), uid: ref.GetUid(), gone: true})
}

// add is to be called with mu held.
func (j *journal) add(ref *podconfigv1.PodRef, s state) {
	name := strings.TrimSuffix(ref.GetName(), j.suffix)
	j.states[name] = append(j.states[name], s)
}

func (j *journal) takeEvent(e *podexecv1.PodEvent) {
	j.mu.Lock()
	defer j.mu.Unlock()
	name := strings.TrimSuffix(e.GetRef().GetName(), j.suffix)
	j.events[name] = append(j.events[name], e)
}

// statesOf are the states that the pods of that name have had, oldest first.
func (j *journal) statesOf(name string) []state {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.states[name][:len(j.states[name]):len(j.states[name])]
}

// eventsOf are the events of the pods of that name, oldest first; one that was counted again is there again.
func (j *journal) eventsOf(name string) []*podexecv1.PodEvent {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.events[name][:len(j.events[name]):len(j.events[name])]
}

// state is what podexecd reported of a pod at one time.
type state struct {
	v1.PodStatus
	reported time.Time
	uid      string
	worker   podexecv1.WorkerState
	waits    string
	failure  string
	pulls    []*podexecv1.ImagePull
	// gone: podexecd has nothing of the pod any more.
	gone bool
}

func newState(p *podexecv1.ObservedPod) state {
	s := state{
		reported: time.Now(), uid: p.GetRef().GetUid(), worker: p.GetWorkerState(),
		waits: p.GetWaitsFor(), failure: p.GetLastError(), pulls: p.GetPulls(),
	}
	if err := s.Unmarshal(p.GetProtobuf()); err != nil {
		s.failure = "the status can't be read: " + err.Error()
	}
	return s
}

// String is the state in a line.
func (s *state) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %.6s gone=%v %s %s ready=%v", s.reported.Format("05.000"), s.uid, s.gone,
		strings.TrimPrefix(s.worker.String(), "WORKER_STATE_"), s.Phase, s.is(v1.PodReady))
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for _, c := range list {
			switch {
			case c.State.Running != nil:
				fmt.Fprintf(&b, " %s(%d): runs", c.Name, c.RestartCount)
			case c.State.Terminated != nil:
				fmt.Fprintf(&b, " %s(%d): ended with %d", c.Name, c.RestartCount, c.State.Terminated.ExitCode)
			default:
				fmt.Fprintf(&b, " %s(%d): %s", c.Name, c.RestartCount, s.waitsFor(c.Name))
			}
		}
	}
	fmt.Fprintf(&b, " waits=%q failure=%q", s.waits, s.failure)
	return b.String()
}

// is reports whether the pod's condition is true.
func (s *state) is(condition v1.PodConditionType) bool {
	return s.condition(condition).Status == v1.ConditionTrue
}

// condition is empty if the pod hasn't got it.
func (s *state) condition(condition v1.PodConditionType) v1.PodCondition {
	for _, c := range s.Conditions {
		if c.Type == condition {
			return c
		}
	}
	return v1.PodCondition{}
}

// of is the status of a container, of whichever kind. It is empty if there is none.
func (s *state) of(container string) *v1.ContainerStatus {
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == container {
				return &list[i]
			}
		}
	}
	return &v1.ContainerStatus{}
}

// runs reports whether the container runs.
func (s *state) runs(container string) bool { return s.of(container).State.Running != nil }

// waitsFor is the reason for which the container waits, or empty if it doesn't.
func (s *state) waitsFor(container string) string {
	if w := s.of(container).State.Waiting; w != nil {
		return w.Reason
	}
	return ""
}

// ended is how the container ended, or nil if it hasn't.
func (s *state) ended(container string) *v1.ContainerStateTerminated {
	return s.of(container).State.Terminated
}

// endedBefore is how the container's run before the present one ended, or nil if there was none.
func (s *state) endedBefore(container string) *v1.ContainerStateTerminated {
	return s.of(container).LastTerminationState.Terminated
}
