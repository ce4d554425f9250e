package podbench

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// watcher follows podexecd's pod statuses.
type watcher struct{ changes chan change }

// change is a message of the watch.
type change struct {
	pod            string // without the node's suffix
	running, ready bool
	// gone is set if podexecd no longer has the pod.
	gone bool
	// at is the time at which the message was received.
	at time.Time
}

func watch(b *testing.B, endpoint string) *watcher {
	b.Helper()
	client := podexecv1.NewPodExecServiceClient(dial(b, endpoint))
	ctx, cancel := context.WithCancel(context.Background())
	// A daemon that has ended never answers.
	late := time.AfterFunc(patience, cancel)
	defer late.Stop()
	stream, err := client.WatchPodStatus(ctx, &podexecv1.WatchPodStatusRequest{Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF})
	if err != nil {
		b.Fatal(err)
	}
	w := &watcher{changes: make(chan change, 100000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			w.changes <- read(m)
		}
	}()
	b.Cleanup(func() { cancel(); <-done })
	return w
}

func read(m *podexecv1.WatchPodStatusResponse) change {
	c := change{at: time.Now()}
	ref := m.GetRemoved()
	if c.gone = ref != nil; !c.gone {
		ref = m.GetPod().GetRef()
	}
	c.pod = strings.TrimSuffix(ref.GetName(), "-"+nodeName)
	var status v1.PodStatus
	if err := status.Unmarshal(m.GetPod().GetProtobuf()); err != nil {
		return c
	}
	c.running = status.Phase == v1.PodRunning
	c.ready = slices.ContainsFunc(status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
	return c
}

// await returns the first change that satisfies the condition. It drops earlier ones.
func (w *watcher) await(b *testing.B, what string, satisfies func(change) bool) change {
	b.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case c := <-w.changes:
			if satisfies(c) {
				return c
			}
		case <-late.C:
			b.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// each returns a condition that is satisfied once there was such a change of each pod.
func each(pods []string, such func(change) bool) func(change) bool {
	missing := map[string]bool{}
	for _, p := range pods {
		missing[p] = true
	}
	return func(c change) bool {
		if such(c) {
			delete(missing, c.pod)
		}
		return len(missing) == 0
	}
}
