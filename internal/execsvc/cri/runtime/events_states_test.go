package runtime

import (
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// An event reports the states that it contains, and the state of its own container, which those states may not show yet.
func TestWatchReportsStates(t *testing.T) {
	const (
		created = runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT
		started = runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT
		stopped = runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT
		deleted = runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT
	)
	type response = runtimeapi.ContainerEventResponse
	of := func(kind runtimeapi.ContainerEventType, id string, ready bool, states ...runtimeapi.ContainerState) *response {
		e := event("a", "me")
		e.ContainerEventType, e.ContainerId, e.PodSandboxStatus.Id = kind, id, "s"
		if !ready {
			e.PodSandboxStatus.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
		}
		for _, state := range states {
			e.ContainersStatuses = append(e.ContainersStatuses, &runtimeapi.ContainerStatus{Id: "c", State: state})
		}
		return e
	}
	pod := func(ready bool, containers ...observed.Container) *observed.Pod {
		return &observed.Pod{UID: "a", Sandboxes: []observed.Sandbox{{ID: "s", Ready: ready}}, Containers: containers}
	}
	is := func(id string, state observed.State) observed.Container {
		return observed.Container{ID: id, State: state}
	}
	tests := []struct {
		name  string
		event *response
		want  *observed.Pod
	}{
		{"a sandbox was made", of(created, "s", true), pod(true, is("s", observed.Created))},
		{"it runs", of(started, "s", true), pod(true, is("s", observed.Running))},
		{"it has stopped", of(stopped, "s", false), pod(false, is("s", observed.Exited))},
		{"a container was made", of(created, "c", true, runtimeapi.ContainerState_CONTAINER_CREATED),
			pod(true, is("c", observed.Created), is("c", observed.Created))},
		{"it has stopped, and its state is late", of(stopped, "c", true, runtimeapi.ContainerState_CONTAINER_RUNNING),
			pod(true, is("c", observed.Running), is("c", observed.Exited))},
		{"it was removed", of(deleted, "c", true, runtimeapi.ContainerState_CONTAINER_EXITED), &observed.Pod{UID: "a"}},
		{"a kind that isn't known", of(99, "c", true, runtimeapi.ContainerState_CONTAINER_RUNNING), &observed.Pod{UID: "a"}},
		{"without a sandbox", &response{ContainerEventType: started, ContainerId: "c", ContainersStatuses: []*runtimeapi.ContainerStatus{{
			Labels: map[string]string{podmeta.PodUIDLabel: "a"}, Annotations: map[string]string{podmeta.AgentAnnotation: "me"},
			Id: "c", State: runtimeapi.ContainerState_CONTAINER_UNKNOWN,
		}}}, &observed.Pod{UID: "a", Containers: []observed.Container{is("c", observed.Unknown), is("c", observed.Running)}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cri := newEventRuntime(false)
			got := make(chan *observed.Pod, 1)
			ended := make(chan error, 1)
			go func() {
				ended <- New(Config{Runtime: cri, Agent: "me"}).Watch(t.Context(), func(reported *observed.Pod) {
					if reported != nil {
						got <- reported
					}
				})
			}()
			cri.events <- tt.event
			if diff := cmp.Diff(tt.want, <-got); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			cri.ends <- io.EOF
			<-ended
		})
	}
}
