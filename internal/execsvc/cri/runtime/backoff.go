package runtime

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// dropInBackoff removes the containers that are in backoff from the containers to start. A requested restart has no
// backoff.
func (s *round) dropInBackoff() {
	s.do.Start = slices.DeleteFunc(s.do.Start, func(start actions.Start) bool {
		if start.Requested {
			return false
		}
		since, ended := s.lastEnd(start.Container.Name)
		return ended && s.inBackoff(start, since)
	})
}

// lastEnd returns when the newest ended container of that name ended, by this process's clock. As in the kubelet, a
// container that is being stopped now doesn't count: it may be replaced at once if it ran for longer than the backoff.
func (s *round) lastEnd(name string) (time.Time, bool) {
	for i := range s.Has.Containers {
		if c := &s.Has.Containers[i]; c.Name == name && c.State == observed.Exited {
			return s.endOf(c), true
		}
	}
	return time.Time{}, false
}

// endOf returns when the container ended, by this process's clock.
func (r *Runtime) endOf(c *observed.Container) time.Time {
	return r.ages.Of(c.ID, r.cfg.Clock.Now(), c.Finished)
}

// inBackoff reports whether a container must wait before it restarts, and records the reason. By the kubelet's rules
// the first start is immediate. After that the backoff, counted from the container's last end, doubles with each
// restart.
func (s *round) inBackoff(start actions.Start, since time.Time) bool {
	key := restartKey(s.Pod, start.Container)
	if !s.restarts.IsInBackOffSince(key, since) {
		return false
	}
	pause, name := s.restarts.Get(key), start.Container.Name
	pod := fmt.Sprintf("%s_%s(%s)", s.Pod.Name, s.Pod.Namespace, s.Pod.UID)
	s.res.Waiting[name] = observed.Waiting{Reason: CrashLoopBackOff, Message: fmt.Sprintf("back-off %v restarting failed container=%s pod=%s", pause, name, pod)}
	s.cfg.Events.Record(s.Pod, name, events.Warning, events.BackOffStart,
		fmt.Sprintf("Back-off restarting failed container %s in pod %s", name, pod))
	s.res.retry(max(since.Add(pause).Sub(s.cfg.Clock.Now()), time.Millisecond))
	return true
}

// countRestart doubles the backoff of the next restart. A requested restart resets it: the operator may have removed the
// cause of the failures.
func (s *round) countRestart(start actions.Start) {
	if start.Requested {
		s.restarts.DeleteEntry(restartKey(s.Pod, start.Container))
		return
	}
	if since, ended := s.lastEnd(start.Container.Name); ended {
		s.restarts.Next(restartKey(s.Pod, start.Container), since)
	}
}

// restartKey returns the key of a container's backoff. As with the kubelet, another image or other resources start a
// new backoff, because the cause of the failures may be gone.
func restartKey(pod *v1.Pod, c *v1.Container) string {
	var key strings.Builder
	fmt.Fprintf(&key, "%s/%s/%s", pod.UID, c.Name, criconfig.ContainerHash(c))
	for _, list := range []v1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
		key.WriteByte('/')
		for _, name := range slices.Sorted(maps.Keys(list)) {
			amount := list[name]
			fmt.Fprintf(&key, "%s=%s,", name, amount.String())
		}
	}
	return key.String()
}
