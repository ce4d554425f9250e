package cridiff

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// arrival decides when the pods of a batch are where they stay: their containers run, have ended, or can't start.
type arrival struct {
	known func(context.Context) (map[types.UID]*v1.Pod, error)
	batch []*v1.Pod
	begun time.Time
	// refusal is the time after which an agent that doesn't have a pod has refused its manifest.
	refusal time.Duration
}

// pollPause is the pause between two requests to the agent's API, and refusal an arrival's on a machine with several
// processors.
const pollPause, refusal = 500 * time.Millisecond, 4 * time.Second

// is returns a function that reports whether, with the calls so far, the pods have arrived.
func (a arrival) is(ctx context.Context) func([]Call) bool {
	containers := 0
	for _, pod := range a.batch {
		containers += len(pod.Spec.Containers) + len(pod.Spec.InitContainers)
	}
	var asked time.Time
	return func(calls []Call) bool {
		if count(calls, "StartContainer") >= containers && probed(a.batch, calls) {
			return true
		}
		if time.Since(asked) < pollPause {
			return false
		}
		asked = time.Now()
		known, err := a.known(ctx)
		if err != nil {
			return false
		}
		var running []*v1.Pod
		for _, pod := range a.batch {
			of, ok := known[pod.UID]
			if ok && !stays(of) || !ok && time.Since(a.begun) < a.refusal {
				return false
			}
			if ok {
				running = append(running, onlyRunning(pod, of))
			}
		}
		return probed(running, calls)
	}
}

// stays reports whether the agent has come as far with the pod as it can.
func stays(pod *v1.Pod) bool {
	if pod.Status.Phase == v1.PodFailed {
		return true
	}
	blocked := func(c v1.ContainerStatus) bool { return c.State.Waiting != nil && !passing[c.State.Waiting.Reason] }
	if slices.ContainsFunc(pod.Status.InitContainerStatuses, blocked) {
		return true
	}
	all := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	if len(all) < len(pod.Spec.InitContainers)+len(pod.Spec.Containers) {
		return false
	}
	return !slices.ContainsFunc(all, func(c v1.ContainerStatus) bool {
		return c.State.Running == nil && c.State.Terminated == nil && !blocked(c)
	})
}

// onlyRunning returns the pod with the containers that run.
func onlyRunning(pod, of *v1.Pod) *v1.Pod {
	pod = pod.DeepCopy()
	statuses := slices.Concat(of.Status.InitContainerStatuses, of.Status.ContainerStatuses)
	for _, list := range []*[]v1.Container{&pod.Spec.InitContainers, &pod.Spec.Containers} {
		*list = slices.DeleteFunc(*list, func(c v1.Container) bool {
			return !slices.ContainsFunc(statuses, func(s v1.ContainerStatus) bool { return s.Name == c.Name && s.State.Running != nil })
		})
	}
	return pod
}

// probed reports whether as many exec probes have run as the pods have.
func probed(pods []*v1.Pod, calls []Call) bool {
	want, commands := 0, map[string]bool{}
	for _, pod := range pods {
		for step := range probesOf(pod) {
			want++
			_, command, _ := strings.Cut(strings.TrimPrefix(step, "ExecSync "), " ")
			commands[command] = true
		}
	}
	ran := map[string]bool{}
	for i := range calls {
		var req runtimeapi.ExecSyncRequest
		if calls[i].Method != "ExecSync" || proto.Unmarshal(calls[i].Request, &req) != nil {
			continue
		}
		if command := strings.Join(req.GetCmd(), " "); commands[command] {
			ran[execOf(req.GetContainerId(), req.GetCmd())] = true
		}
	}
	return len(ran) >= want
}
