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

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// containerDetails completes c. It returns false if the container was removed meanwhile. It also sets the PID of the
// pod's sandbox if the sandbox is ready, c is in it and the answer has that PID.
func (r *Runtime) containerDetails(ctx context.Context, uid types.UID, c *observed.Container, sandbox *observed.Sandbox) (bool, error) {
	r.mu.Lock()
	known, ok := r.details[c.ID]
	updates := r.updates
	ok = ok && known.State == c.State && (c.State != observed.Running || !r.justStopped(c.ID))
	r.mu.Unlock()
	if ok {
		*c = known
		return true, nil
	}
	// Only a verbose answer has the PID. It is large, so it is requested once: a running container's details are
	// cached.
	verbose := c.State == observed.Running
	resp, err := r.lastStatus(ctx, c.ID, verbose)
	if status.Code(err) == codes.NotFound {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask for the status of container %s (%s): %w", c.Name, c.ID, err)
	}
	s := resp.GetStatus()
	c.State, c.ExitCode, c.Reason, c.Message = observed.StateOf(s.GetState()), s.GetExitCode(), s.GetReason(), s.GetMessage()
	c.Image, c.ImageRef = s.GetImage().GetImage(), s.GetImageRef()
	c.Started, c.Finished = timeOf(s.GetStartedAt()), timeOf(s.GetFinishedAt())
	found := processesOf(resp.GetInfo())
	c.PID = found.PID
	if sandbox != nil && sandbox.ID == c.SandboxID && sandbox.PID == 0 {
		sandbox.PID = found.sandbox()
	}
	c.Resources, c.User, c.StopSignal = resourcesOf(s), userOf(s), criconfig.SignalOf(s.GetStopSignal())
	c.PreStop = recorded[*v1.LifecycleHandler](r, s, criconfig.PreStopHandlerAnnotation)
	c.Ports = recorded[[]v1.ContainerPort](r, s, criconfig.PortsAnnotation)
	c.MemoryRequest = recorded[*int64](r, s, criconfig.MemoryRequestAnnotation)
	if r.cutShort(c) {
		// It never ran, and can't be started again.
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

// processes has the PIDs in a verbose answer of containerd or CRI-O. A missing one is zero.
type processes struct {
	PID  int `json:"pid"`
	Spec struct {
		Linux struct {
			Namespaces []struct{ Type, Path string } `json:"namespaces"`
		} `json:"linux"`
	} `json:"runtimeSpec"`
}

func processesOf(info map[string]string) (found processes) {
	// A field of another type leaves the other fields as they are.
	_ = json.Unmarshal([]byte(info["info"]), &found)
	return found
}

// sandbox returns the PID of the process that keeps a container's sandbox. containerd names the namespaces by it:
// /proc/4711/ns/ipc. It is 0 if they are named otherwise. As with every PID, its cgroup must be checked before use.
func (p processes) sandbox() int {
	for _, n := range p.Spec.Linux.Namespaces {
		if rest, ok := strings.CutPrefix(n.Path, "/proc/"); ok && n.Type == "ipc" {
			pid, _ := strconv.Atoi(strings.TrimSuffix(rest, "/ns/ipc"))
			return pid
		}
	}
	return 0
}

// userOf returns the user that the container's first process started as; nil if the runtime doesn't report it.
func userOf(s *runtimeapi.ContainerStatus) *v1.ContainerUser {
	linux := s.GetUser().GetLinux()
	if linux == nil {
		return nil
	}
	return &v1.ContainerUser{Linux: &v1.LinuxContainerUser{
		UID: linux.GetUid(), GID: linux.GetGid(), SupplementalGroups: linux.GetSupplementalGroups(),
	}}
}

// recorded returns the value of an annotation that was set when the container was created. A value that can't be
// decoded counts as missing: the container must stop without it.
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

// cutShort reports whether a restart of the agent interrupted the container's start: the runtime gave up when the call
// was cancelled, or killed the starting process. A start that failed while this agent waited for it failed by itself,
// whatever its message.
func (r *Runtime) cutShort(c *observed.Container) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return c.State == observed.Exited && c.Started.IsZero() && !r.failedStarts[c.ID] &&
		(strings.Contains(c.Message, context.Canceled.Error()) || strings.Contains(c.Message, "signal: killed"))
}

// timeOf converts a CRI time in nanoseconds, where zero means never.
func timeOf(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}

// marks returns the sets of container IDs that are kept beside the details. The caller holds the lock.
func (r *Runtime) marks() []map[string]bool {
	return []map[string]bool{r.failedStarts, r.replaced, r.preStopped, r.stopped}
}

// remembered returns the IDs of the containers and sandboxes that have cached data.
func (r *Runtime) remembered() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := slices.Collect(maps.Keys(r.details))
	out = slices.AppendSeq(out, maps.Keys(r.sandboxes))
	out = slices.AppendSeq(out, maps.Keys(r.signaled))
	out = slices.AppendSeq(out, maps.Keys(r.tried))
	out = slices.AppendSeq(out, maps.Keys(r.confirmed))
	out = append(out, r.ages.Keys()...)
	for _, ids := range r.marks() {
		out = slices.AppendSeq(out, maps.Keys(ids))
	}
	return out
}

// dropGone drops the cached data of those ids that aren't in a reading that started after they were cached.
func (r *Runtime) dropGone(ids []string, pods []*observed.Pod) {
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
		delete(r.signaled, id)
		delete(r.tried, id)
		delete(r.confirmed, id)
		r.ages.Drop(id)
		for _, marked := range r.marks() {
			delete(marked, id)
		}
	}
}
