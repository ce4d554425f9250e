package world

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// journal is what podexecd has reported.
type journal struct {
	mu sync.Mutex
	// changed is closed, and replaced, at each report.
	changed chan struct{}
	// pods are those that podexecd has, by name, with nothing but metadata and status.
	pods   map[string]*v1.Pod
	events map[string][]*podexecv1.PodEvent
	// trouble is why a stream ended last; nil if none has.
	trouble error
}

func newJournal() *journal {
	return &journal{changed: make(chan struct{}), pods: map[string]*v1.Pod{}, events: map[string][]*podexecv1.PodEvent{}}
}

// follow follows podexecd's streams until ctx ends; the function returned waits for that.
func (j *journal) follow(ctx context.Context, client podexecv1.PodExecServiceClient) (wait func()) {
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			stream, err := client.WatchPodStatus(ctx, &podexecv1.WatchPodStatusRequest{Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF})
			listed := map[string]bool{}
			for err == nil {
				var msg *podexecv1.WatchPodStatusResponse
				if msg, err = stream.Recv(); err == nil {
					j.take(msg, listed)
				}
			}
			j.cut(ctx, err)
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
			j.cut(ctx, err)
		}
	})
	return group.Wait
}

// cut notes why a stream has ended, and keeps one that is refused from being asked for all the time.
func (j *journal) cut(ctx context.Context, err error) {
	j.mu.Lock()
	j.trouble = err
	j.mu.Unlock()
	select {
	case <-time.After(50 * time.Millisecond):
	case <-ctx.Done():
	}
}

// take records a message of a stream that has listed the pods in listed.
func (j *journal) take(msg *podexecv1.WatchPodStatusResponse, listed map[string]bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if p := msg.GetPod(); p != nil {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: p.GetRef().GetNamespace(), Name: p.GetRef().GetName(), UID: types.UID(p.GetRef().GetUid()),
		}}
		if err := pod.Status.Unmarshal(p.GetProtobuf()); err != nil {
			pod.Status.Message = "the status can't be read: " + err.Error()
		}
		j.pods[pod.Name], listed[pod.Name] = pod, true
	}
	if gone := msg.GetRemoved(); gone != nil && j.pods[gone.GetName()] != nil && string(j.pods[gone.GetName()].UID) == gone.GetUid() {
		delete(j.pods, gone.GetName())
	}
	if msg.GetSynced() != nil {
		maps.DeleteFunc(j.pods, func(name string, _ *v1.Pod) bool { return !listed[name] })
	}
	j.signal()
}

func (j *journal) takeEvent(e *podexecv1.PodEvent) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events[e.GetRef().GetName()] = append(j.events[e.GetRef().GetName()], e)
	j.signal()
}

// signal is to be called with mu held.
func (j *journal) signal() {
	close(j.changed)
	j.changed = make(chan struct{})
}

// pod is the pod of that name; nil if podexecd has none. It isn't to be changed.
func (j *journal) pod(name string) *v1.Pod {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.pods[name]
}

// eventsOf are the events of the pods of that name, oldest first; one that was counted again is there again.
func (j *journal) eventsOf(name string) []*podexecv1.PodEvent {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.events[name])
}

// drop drops the events of the pods of that name.
func (j *journal) drop(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.events, name)
}

// lookAgain is how often await checks without a report, for changes that podexecd doesn't cause.
const lookAgain = time.Second

// await waits until check returns nil, and calls it after each report.
func (j *journal) await(ctx context.Context, check func() error) error {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		j.mu.Lock()
		changed := j.changed
		j.mu.Unlock()
		err := check()
		if err == nil {
			return nil
		}
		if final, ok := err.(finalError); ok { //nolint:errorlint // It is never wrapped.
			return final.error
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("not within %v: %w%s", patience, err, j.troubled())
		}
	}
}

func (j *journal) troubled() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.trouble == nil {
		return ""
	}
	return fmt.Sprintf(" (a stream of podexecd's had ended: %v)", j.trouble)
}

// finalError is one that no waiting mends.
type finalError struct{ error }
