package cridiff

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// quiet is the time without a request after which a pod that isn't complete is left as it is: it was rejected, or a
// container can't be created. With init containers it is retryQuiet: if the kubelet finds one's end too early, it looks
// again after 10 to 15 s. settled is the longest time, as some failures are tried again without end.
const quiet, retryQuiet, settled = 6 * time.Second, 16 * time.Second, 30 * time.Second

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
	requests, responses := Change(unchanged), Change(s.improved)
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
	if s.Resized != nil {
		failed := s.startServer(ctx)
		defer func() { err = errors.Join(err, s.api.kill()) }()
		if failed != nil {
			return nil, failed
		}
	}
	processes, err := agent.start(s)
	defer func() {
		for _, p := range processes {
			err = errors.Join(err, p.kill())
		}
	}()
	if err != nil {
		return nil, err
	}
	if s.api != nil {
		if err := s.api.awaitNode(ctx); err != nil {
			return nil, err
		}
	}
	found := found{files: map[string]Fields{}, inside: map[string]trees{}}
	pid := processes[0].cmd.Process.Pid
	if err := nodeAPI(pid).await(ctx, s.patience(serving)); err != nil {
		return nil, err
	}
	for _, batch := range batches {
		if err := s.playBatch(ctx, proxy, pid, batch, func() error { return s.find(ctx, pid, batch, &found) }); err != nil {
			return nil, err
		}
	}
	if err := s.settle(ctx, proxy); err != nil {
		return nil, err
	}
	t := newTracer(s.replacer(), proxy.IPs(), s.Removals)
	t.attempts = s.Resized != nil
	calls, _ := proxy.Calls()
	calls = append(calls, proxy.Unended()...)
	for i := range calls {
		if err := t.add(&calls[i]); err != nil {
			return nil, err
		}
	}
	for _, pod := range found.pods {
		t.addOutcome(pod, found.files[string(pod.UID)])
		for step, of := range found.inside[string(pod.UID)] {
			if step == cgroupStep {
				of = t.named(of)
			}
			t.putFields(string(pod.UID), step, of)
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
	inside map[string]trees
}

// find adds the pods of the batch that the agent knows.
func (s *Site) find(ctx context.Context, pid int, batch []*v1.Pod, to *found) error {
	known, err := s.known(ctx, pid)
	if err != nil {
		return err
	}
	for _, pod := range batch {
		of, ok := known[pod.UID]
		if !ok {
			continue
		}
		if to.files[string(pod.UID)], err = s.filesOf(pid, of); err != nil {
			return err
		}
		of.UID = pod.UID
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
func (s *Site) playBatch(ctx context.Context, proxy *Proxy, pid int, batch []*v1.Pod, look func() error) error {
	before, _ := proxy.Calls()
	if err := s.deliver(ctx, batch); err != nil {
		return err
	}
	known := func(ctx context.Context) (map[types.UID]*v1.Pod, error) { return s.known(ctx, pid) }
	arrived := arrival{known: known, batch: batch, begun: time.Now(), refusal: s.patience(refusal)}.is(ctx)
	wait := quiet
	if slices.ContainsFunc(batch, func(p *v1.Pod) bool { return len(p.Spec.InitContainers) > 0 }) {
		wait = retryQuiet
	}
	if _, err := proxy.Await(ctx, s.patience(wait), s.patience(settled), func(calls []Call) bool {
		return arrived(calls[len(before):])
	}); err != nil {
		return err
	}
	if s.Rotate {
		if err := s.rotate(ctx, proxy); err != nil {
			return err
		}
	}
	if s.Resized != nil {
		if err := s.resize(ctx, batch); err != nil {
			return err
		}
	}
	if err := look(); err != nil {
		return err
	}
	if err := s.withdraw(ctx, batch); err != nil {
		return err
	}
	_, err := proxy.Await(ctx, s.patience(quiet), s.patience(time.Minute), func(calls []Call) bool { return len(running(calls)) == 0 })
	return err
}

// longLog is the size in bytes at which an agent rotates a log, if Rotate is set, and rotated the longest time for that:
// the agent looks every 3 s.
const longLog, rotated = 4096, 10 * time.Second

// rotate appends to the containers' logs more than an agent leaves in one file, and waits until it has made the runtime
// open new ones.
func (s *Site) rotate(ctx context.Context, proxy *Proxy) error {
	logs, err := filepath.Glob(s.path("logs", "*", "*", "*.log"))
	if err != nil || len(logs) == 0 {
		return fmt.Errorf("%d logs: %w", len(logs), err)
	}
	lines := bytes.Repeat([]byte("2026-11-23T14:10:01.000000000Z stdout F line\n"), 2*longLog/40)
	for _, log := range logs {
		file, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		_, err = file.Write(lines)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	_, err = proxy.Await(ctx, rotated, rotated, func(calls []Call) bool { return count(calls, "ReopenContainerLog") >= len(logs) })
	return err
}

// removed bounds the wait for the removal of what has ended, which the kubelet does once a minute.
const removed = 150 * time.Second

// settle waits until all calls have ended and, if that is to be compared, everything is removed.
func (s *Site) settle(ctx context.Context, proxy *Proxy) error {
	limit := s.patience(quiet)
	if s.Removals {
		limit = removed
	}
	_, err := proxy.Await(ctx, limit, limit, func(calls []Call) bool {
		return len(proxy.Unended()) == 0 && (!s.Removals || len(left(calls)) == 0)
	})
	return err
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
	return between(calls, map[string]string{"RunPodSandbox": "StopPodSandbox"})
}

// left returns the sandboxes and containers that were made and not removed.
func left(calls []Call) map[string]bool {
	return between(calls, map[string]string{"RunPodSandbox": "RemovePodSandbox", "CreateContainer": "RemoveContainer"})
}

// between returns the IDs in the response of a method in begin, without those in a request of the method that ends it.
func between(calls []Call, begin map[string]string) map[string]bool {
	ids := map[string]bool{}
	for i := range calls {
		c := &calls[i]
		begins, ends := begin[c.Method] != "", slices.Contains(slices.Collect(maps.Values(begin)), c.Method)
		if c.Err != "" || !begins && !ends {
			continue
		}
		req, resp, err := c.messages()
		if err != nil {
			continue
		}
		for _, name := range []protoreflect.Name{"pod_sandbox_id", "container_id"} {
			if id, ok := takeID(resp, name, ""); ok && begins {
				ids[id] = true
			}
			if id, ok := takeID(req, name, ""); ok && ends {
				delete(ids, id)
			}
		}
	}
	return ids
}
