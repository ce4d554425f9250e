package cridiff

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// quiet is the time without a request after which a pod that isn't complete is left as it is: it was rejected, or a
// container can't be created. With init containers it is retryQuiet: if the kubelet finds one's end too early, it looks
// again after 10 s. settled is the longest time, as some failures are tried again without end.
const quiet, retryQuiet, settled = 6 * time.Second, 12 * time.Second, 25 * time.Second

// Play runs the pods, batch by batch, and returns the trace of the agent's requests. The agents run one after the
// other, each with its own runtime.
func Play(ctx context.Context, s *Site, agent Agent, batches [][]*v1.Pod) (trace Trace, err error) {
	if err := s.prepare(); err != nil {
		return nil, err
	}
	sim, endpoint, err := s.startRuntime()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sim.kill()) }()
	requests, responses := Change(unchanged), Change(improved)
	if s.Plant != nil {
		requests = s.Plant
	}
	if s.Runtime != "" {
		responses = unchanged
	}
	proxy, err := NewProxy(s.path("cri.sock"), endpoint, requests, responses)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, proxy.Close()) }()
	processes, err := agent.start(s)
	defer func() {
		for _, p := range processes {
			err = errors.Join(err, p.kill())
		}
	}()
	if err != nil {
		return nil, err
	}
	found := found{files: map[string]Fields{}, inside: map[string]map[string]any{}}
	pid := processes[0].cmd.Process.Pid
	for _, batch := range batches {
		if err := s.playBatch(ctx, proxy, batch, func() error { return s.find(ctx, pid, batch, &found) }); err != nil {
			return nil, err
		}
	}
	t := newTracer(strings.NewReplacer(s.path("root"), "ROOT", s.Dir, "DIR"), proxy.IPs())
	for _, pod := range found.pods {
		t.addOutcome(pod, found.files[string(pod.UID)])
		for step, tree := range found.inside[string(pod.UID)] {
			t.putFields(string(pod.UID), step, tree)
		}
	}
	calls, _ := proxy.Calls()
	for i := range calls {
		if err := t.add(&calls[i]); err != nil {
			return nil, err
		}
	}
	t.addOrder(batches)
	return t.trace, nil
}

// found is what an agent says of its pods, and, by UID, the files that it made for them, and what is found in their
// containers and cgroups, by step.
type found struct {
	pods   []*v1.Pod
	files  map[string]Fields
	inside map[string]map[string]any
}

// find adds the pods of the batch that the agent knows.
func (s *Site) find(ctx context.Context, pid int, batch []*v1.Pod, to *found) error {
	known, err := nodeAPI(pid).pods(ctx)
	if err != nil {
		return err
	}
	for _, pod := range batch {
		of, ok := known[pod.UID]
		if !ok {
			continue
		}
		if to.files[string(pod.UID)], err = s.filesOf(pid, pod); err != nil {
			return err
		}
		to.pods = append(to.pods, of)
		if s.Runtime == "" {
			continue
		}
		if to.inside[string(pod.UID)], err = s.lookInside(ctx, pid, of); err != nil {
			return err
		}
	}
	return nil
}

// playBatch runs the pods until they are complete or the agent is quiet, calls look, and removes them.
func (s *Site) playBatch(ctx context.Context, proxy *Proxy, batch []*v1.Pod, look func() error) error {
	before, _ := proxy.Calls()
	containers := 0
	for _, pod := range batch {
		containers += len(pod.Spec.Containers) + len(pod.Spec.InitContainers)
		text, err := json.Marshal(pod)
		if err != nil {
			return err
		}
		temp := s.path("manifests", ".new")
		if err := os.WriteFile(temp, text, 0o644); err != nil {
			return err
		}
		if err := os.Rename(temp, s.manifest(pod)); err != nil {
			return err
		}
	}
	wait := quiet
	if slices.ContainsFunc(batch, func(p *v1.Pod) bool { return len(p.Spec.InitContainers) > 0 }) {
		wait = retryQuiet
	}
	if _, err := proxy.Await(ctx, wait, settled, func(calls []Call) bool {
		return count(calls[len(before):], "StartContainer") >= containers
	}); err != nil {
		return err
	}
	if err := look(); err != nil {
		return err
	}
	for _, pod := range batch {
		if err := os.Remove(s.manifest(pod)); err != nil {
			return err
		}
	}
	_, err := proxy.Await(ctx, quiet, time.Minute, func(calls []Call) bool { return len(running(calls)) == 0 })
	return err
}

func (s *Site) manifest(pod *v1.Pod) string {
	return filepath.Join(s.Dir, "manifests", string(pod.UID)+".json")
}

func count(calls []Call, method string) int {
	n := 0
	for i := range calls {
		if calls[i].Method == method && calls[i].Err == "" {
			n++
		}
	}
	return n
}

// running returns the sandboxes that were started and not stopped.
func running(calls []Call) map[string]bool {
	ids := map[string]bool{}
	for i := range calls {
		switch c := &calls[i]; c.Method {
		case "RunPodSandbox":
			var resp runtimeapi.RunPodSandboxResponse
			if c.Err == "" && proto.Unmarshal(c.Response, &resp) == nil {
				ids[resp.GetPodSandboxId()] = true
			}
		case "StopPodSandbox":
			var req runtimeapi.StopPodSandboxRequest
			if proto.Unmarshal(c.Request, &req) == nil {
				delete(ids, req.GetPodSandboxId())
			}
		}
	}
	return ids
}
