package runtime

import (
	"context"
	"sync"
	"testing"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// verboseRuntime adds a pid to its verbose answers, as containerd and CRI-O do, and counts them.
type verboseRuntime struct {
	internalapi.RuntimeService
	info string

	mu    sync.Mutex
	asked map[string]int
}

func (r *verboseRuntime) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	resp, err := r.RuntimeService.ContainerStatus(ctx, id, verbose)
	if verbose && err == nil {
		resp.Info = r.answer(id)
	}
	return resp, err
}

func (r *verboseRuntime) PodSandboxStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	resp, err := r.RuntimeService.PodSandboxStatus(ctx, id, verbose)
	if verbose && err == nil {
		resp.Info = r.answer(id)
	}
	return resp, err
}

func (r *verboseRuntime) answer(id string) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked[id]++
	return map[string]string{"info": r.info}
}

// A container in the namespaces of its sandbox's process shows that PID too, so the sandbox needn't be read for it.
func TestPIDOfSandbox(t *testing.T) {
	for name, tc := range map[string]struct {
		namespaces string
		// want is the sandbox's PID, and asked whether it had to be read.
		want  int
		asked int
	}{
		"containerd's": {`[{"type":"pid"},{"type":"network","path":"/run/netns/x"},{"type":"ipc","path":"/proc/42/ns/ipc"}]`, 42, 0},
		"pinned":       {`[{"type":"ipc","path":"/run/ipcns/42"}]`, 4711, 1},
		"another's":    {`[{"type":"pid","path":"/proc/42/ns/pid"}]`, 4711, 1},
		"no number":    {`[{"type":"ipc","path":"/proc/self/ns/ipc"}]`, 4711, 1},
		"its own":      {`[{"type":"ipc"}]`, 4711, 1},
		"unreadable":   {`{"type":"ipc"}`, 4711, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t)
			info := `{"runtimeSpec":{"linux":{"namespaces":` + tc.namespaces + `}},"pid":4711}`
			cri := &verboseRuntime{RuntimeService: s.CRI, info: info, asked: map[string]int{}}
			s.change = func(cfg *Config) { cfg.Runtime = cri }
			s.Runtime = s.restarted()
			pod := simPod(sample("a"))
			s.mustSync(pod)
			for range 2 {
				has := s.status(pod)
				box := has.ReadySandbox()
				if box.PID != tc.want || has.Latest("a").PID != 4711 || len(box.IPs) == 0 || cri.asked[box.ID] != tc.asked {
					t.Errorf("the sandbox is %+v after %d verbose answers, a has process %d", box, cri.asked[box.ID], has.Latest("a").PID)
				}
			}
		})
	}
}

// The PID of a running container is read once, whether or not the runtime reports it; that of an ended one isn't.
func TestPIDs(t *testing.T) {
	for name, tc := range map[string]struct {
		info string
		want int
	}{
		"told":                  {`{"sandboxID":"x","pid":4711,"runtimeSpec":{"process":{"pid":1}}}`, 4711},
		"no process":            {`{"runtimeSpec":{}}`, 0},
		"something else":        {`pid 4711`, 0},
		"a pid of another kind": {`{"pid":"4711"}`, 0},
		"nothing":               {"", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t)
			cri := &verboseRuntime{RuntimeService: s.CRI, info: tc.info, asked: map[string]int{}}
			s.change = func(cfg *Config) { cfg.Runtime = cri }
			s.Runtime = s.restarted()
			pod := simPod(sample("a"), sample("b", "exit", "3"))
			s.mustSync(pod)
			var box, a, b string
			for range 3 {
				has := s.status(pod)
				box, a, b = has.ReadySandbox().ID, has.Latest("a").ID, has.Latest("b").ID
				sandbox, runs, ended := has.ReadySandbox().PID, has.Latest("a").PID, has.Latest("b").PID
				if sandbox != tc.want || runs != tc.want || ended != 0 {
					t.Errorf("the sandbox has process %d, a has %d, and b %d; want %d, %[4]d and 0", sandbox, runs, ended, tc.want)
				}
			}
			if cri.asked[box] != 1 || cri.asked[a] != 1 || cri.asked[b] != 0 {
				t.Errorf("verbose answers: %v; want one for %s and %s", cri.asked, box, a)
			}
			s.exit(pod, "a", 1)
			if has := s.status(pod).Latest("a"); has.State != observed.Exited || cri.asked[a] != 1 {
				t.Errorf("a is %+v, after %d verbose answers", has, cri.asked[a])
			}
			s.Server.DropAll()
			s.wantListed()
			if left := s.remembered(); len(left) != 0 {
				t.Errorf("what is gone is remembered: %v", left)
			}
		})
	}
}
