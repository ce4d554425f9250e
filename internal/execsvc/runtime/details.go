package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// containerDetails completes c. It is false if the container has gone meanwhile. The pid of the pod's sandbox, if that is ready, is set on
// the way if c is in it and tells.
func (r *Runtime) containerDetails(ctx context.Context, uid types.UID, c *observed.Container, sandbox *observed.Sandbox) (bool, error) {
	r.mu.Lock()
	known, ok := r.details[c.ID]
	updates := r.updates
	r.mu.Unlock()
	if ok && known.State == c.State {
		*c = known
		return true, nil
	}
	// Only a verbose answer tells the pid. It is a large one, and asked for once, as what runs is remembered then.
	verbose := c.State == observed.Running
	resp, err := r.cfg.Runtime.ContainerStatus(ctx, c.ID, verbose)
	for _, pause := range killedPauses {
		if err != nil || !r.mayBeOOM(resp.GetStatus()) {
			break
		}
		select {
		case <-time.After(pause):
			resp, err = r.cfg.Runtime.ContainerStatus(ctx, c.ID, verbose)
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	if status.Code(err) == codes.NotFound {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask for the status of container %s (%s): %w", c.Name, c.ID, err)
	}
	s := resp.GetStatus()
	c.State, c.ExitCode, c.Reason, c.Message = stateOf(s.GetState()), s.GetExitCode(), s.GetReason(), s.GetMessage()
	c.Image, c.ImageRef = s.GetImage().GetImage(), s.GetImageRef()
	c.Started, c.Finished = timeOf(s.GetStartedAt()), timeOf(s.GetFinishedAt())
	told := processesOf(resp.GetInfo())
	c.PID = told.PID
	if sandbox != nil && sandbox.ID == c.SandboxID && sandbox.PID == 0 {
		sandbox.PID = told.sandbox()
	}
	c.Resources, c.User, c.StopSignal = resourcesOf(s), userOf(s), criconfig.SignalOf(s.GetStopSignal())
	c.PreStop = recorded[*v1.LifecycleHandler](r, s, criconfig.PreStopHandlerAnnotation)
	c.Ports = recorded[[]v1.ContainerPort](r, s, criconfig.PortsAnnotation)
	c.MemoryRequest = recorded[*int64](r, s, criconfig.MemoryRequestAnnotation)
	if r.cutShort(c) {
		// It never ran, and can't be started any more.
		c.State = observed.Created
		return true, nil
	}
	if c.State == observed.Exited {
		r.addMessage(ctx, uid, c, s)
	}
	final := !r.mayBeOOM(s)
	r.mu.Lock()
	defer r.mu.Unlock()
	c.Replaced = c.State == observed.Exited && r.replaced[c.ID]
	if c.State == observed.Running && verbose && updates == r.updates || c.State == observed.Exited && final {
		r.details[c.ID] = *c
	}
	return true, nil
}

// A runtime may hear only after a container's end that the kernel has killed it for its memory; until then the reason is a plain error.
// Who was killed, and not by this agent, is asked for again after these pauses, and remembered only once oomLag is over.
var killedPauses = []time.Duration{25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond}

const (
	oomLag       = 2 * time.Second
	exitKilled   = 137
	reasonFailed = "Error"
)

// mayBeOOM tells whether the container has just been killed, and the runtime may have yet to hear why.
func (r *Runtime) mayBeOOM(s *runtimeapi.ContainerStatus) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return s.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED && s.GetExitCode() == exitKilled && s.GetReason() == reasonFailed &&
		!r.stopped[s.GetId()] && r.cfg.Clock.Since(timeOf(s.GetFinishedAt())) < oomLag
}

// processes are those that a verbose answer of containerd or CRI-O tells of. What it doesn't tell is zero.
type processes struct {
	PID  int `json:"pid"`
	Spec struct {
		Linux struct {
			Namespaces []struct{ Type, Path string } `json:"namespaces"`
		} `json:"linux"`
	} `json:"runtimeSpec"`
}

func processesOf(info map[string]string) (told processes) {
	// A part that is of another kind leaves the others as they are.
	_ = json.Unmarshal([]byte(info["info"]), &told)
	return told
}

// sandbox is the pid of the process that keeps a container's sandbox, whose namespaces containerd names by it: /proc/4711/ns/ipc. 0 if they
// are named otherwise. As with every pid, only its cgroup tells whether it is the right one.
func (p processes) sandbox() int {
	for _, n := range p.Spec.Linux.Namespaces {
		if rest, ok := strings.CutPrefix(n.Path, "/proc/"); ok && n.Type == "ipc" {
			pid, _ := strconv.Atoi(strings.TrimSuffix(rest, "/ns/ipc"))
			return pid
		}
	}
	return 0
}

// userOf is whom the container's first process began as; nil if the runtime doesn't tell.
func userOf(s *runtimeapi.ContainerStatus) *v1.ContainerUser {
	linux := s.GetUser().GetLinux()
	if linux == nil {
		return nil
	}
	return &v1.ContainerUser{Linux: &v1.LinuxContainerUser{
		UID: linux.GetUid(), GID: linux.GetGid(), SupplementalGroups: linux.GetSupplementalGroups(),
	}}
}

// recorded is what was written down in an annotation of the container when it was made. What can't be read is as if it weren't
// there: the container has to end without it.
func recorded[T any](r *Runtime, s *runtimeapi.ContainerStatus, annotation string) (value T) {
	text := s.GetAnnotations()[annotation]
	if text == "" {
		return value
	}
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		r.log.Warn("an annotation of a container can't be read", "container", s.GetId(), "annotation", annotation, "error", err)
		var none T
		return none
	}
	return value
}

// cutShort tells whether the container's start ended with the agent that called for it: the runtime gave up when the call was
// gone, or killed what was starting. A start that failed under this agent's eyes failed by itself, whatever its message.
func (r *Runtime) cutShort(c *observed.Container) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return c.State == observed.Exited && c.Started.IsZero() && !r.failedStarts[c.ID] &&
		(strings.Contains(c.Message, context.Canceled.Error()) || strings.Contains(c.Message, "signal: killed"))
}

// timeOf is a CRI time in nanoseconds, where zero means never.
func timeOf(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}

// marks are the maps of container ids that are remembered beside the details. The caller holds the lock.
func (r *Runtime) marks() []map[string]bool {
	return []map[string]bool{r.failedStarts, r.replaced, r.preStopped, r.stopped}
}

// remembered are the ids of the containers and sandboxes of which anything is remembered.
func (r *Runtime) remembered() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := slices.Collect(maps.Keys(r.details))
	out = slices.AppendSeq(out, maps.Keys(r.sandboxes))
	out = slices.AppendSeq(out, maps.Keys(r.told))
	for _, ids := range r.marks() {
		out = slices.AppendSeq(out, maps.Keys(ids))
	}
	return out
}

// forgetGone drops what is remembered of those ids that aren't in a reading that was begun after they were known.
func (r *Runtime) forgetGone(ids []string, pods []*observed.Pod) {
	there := map[string]bool{}
	for _, p := range pods {
		for _, c := range p.Containers {
			there[c.ID] = true
		}
		for _, s := range p.Sandboxes {
			there[s.ID] = true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if there[id] {
			continue
		}
		delete(r.details, id)
		delete(r.sandboxes, id)
		delete(r.told, id)
		for _, marked := range r.marks() {
			delete(marked, id)
		}
	}
}
