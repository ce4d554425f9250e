package runtime

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/actions"
	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// dropInBackoff takes the containers out of what is to be started that have to wait.
func (s *round) dropInBackoff() {
	s.do.Start = slices.DeleteFunc(s.do.Start, func(start actions.Start) bool {
		since, ended := lastEnd(s.Has, start.Container.Name)
		return ended && s.inBackoff(start, since)
	})
}

// lastEnd is when the newest container of that name that has ended did. One that is being stopped now isn't it, as in the kubelet: it
// may be replaced at once if it ran for longer than the pause.
func lastEnd(has *observed.Pod, name string) (time.Time, bool) {
	for _, c := range has.Containers {
		if c.Name == name && c.State == observed.Exited {
			return c.Finished, true
		}
	}
	return time.Time{}, false
}

// inBackoff tells whether a container has to wait before it is started again, and says so. By the kubelet's rules it starts at
// once the first time, then after a pause since its last end that doubles with each restart.
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

// countRestart lets the next restart wait longer.
func (s *round) countRestart(start actions.Start) {
	if since, ended := lastEnd(s.Has, start.Container.Name); ended {
		s.restarts.Next(restartKey(s.Pod, start.Container), since)
	}
}

// restartKey tells the backoffs of containers apart. Another image begins anew.
func restartKey(pod *v1.Pod, c *v1.Container) string {
	return string(pod.UID) + "/" + c.Name + "/" + criconfig.ContainerHash(c)
}
