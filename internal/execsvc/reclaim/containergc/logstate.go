package containergc

import (
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// logState is what is known of the logs of this agent's pods when a round starts.
type logState struct {
	// logsDir and linksDir are absolute.
	logsDir, linksDir string
	// podDirs are the names of the log directories of the pods in the runtime.
	podDirs map[string]bool
	// liveLinks are the names of the links to logs of containers that may still write.
	liveLinks map[string]bool
}

func newLogState(logsDir, linksDir string, found []*observed.Pod) logState {
	p := logState{logsDir: logsDir, linksDir: linksDir, podDirs: map[string]bool{}, liveLinks: map[string]bool{}}
	for _, pod := range found {
		p.podDirs[podmeta.LogDir("", pod.Namespace, pod.Name, pod.UID)] = true
		for _, c := range pod.Containers {
			if c.State != observed.Exited {
				p.liveLinks[podmeta.LogLinkName(pod.Namespace, pod.Name, c.Name, c.ID)] = true
			}
		}
	}
	return p
}

// log returns the link's log and the directory of its pod, both relative to the logs directory. ok is false if the
// target isn't a pod's log, or if the container may run: its log is absent for a moment during rotation.
func (p logState) log(link, target string) (dir, log string, ok bool) {
	if p.liveLinks[link] {
		return "", "", false
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(p.linksDir, target)
	}
	log, err := filepath.Rel(p.logsDir, target)
	if err != nil || !filepath.IsLocal(log) {
		return "", "", false
	}
	dir, _, below := strings.Cut(log, string(filepath.Separator))
	return dir, log, below && isPodLogDir(dir)
}

// isPodLogDir reports whether dir is the name of a pod's log directory, <namespace>_<name>_<uid>.
func isPodLogDir(dir string) bool {
	// Namespaces and names have no underscores; a UID may.
	parts := strings.SplitN(dir, "_", 3)
	return len(parts) == 3 && len(validation.IsDNS1123Label(parts[0])) == 0 && len(validation.IsDNS1123Subdomain(parts[1])) == 0 &&
		podmeta.CheckUID(types.UID(parts[2])) == nil
}
