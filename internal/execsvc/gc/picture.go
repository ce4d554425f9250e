package gc

import (
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// picture is what is known of the logs of this agent's pods when a round begins.
type picture struct {
	// logsDir and linksDir are absolute.
	logsDir, linksDir string
	// found are the names of the directories of logs of the pods that the runtime has.
	found map[string]bool
	// written are the names of the links to the logs of containers that may still write.
	written map[string]bool
}

func newPicture(logsDir, linksDir string, found []*observed.Pod) picture {
	p := picture{logsDir: logsDir, linksDir: linksDir, found: map[string]bool{}, written: map[string]bool{}}
	for _, pod := range found {
		p.found[criconfig.LogDir("", pod.Namespace, pod.Name, pod.UID)] = true
		for _, c := range pod.Containers {
			if c.State != observed.Exited {
				p.written[criconfig.LogLinkName(pod.Namespace, pod.Name, c.Name, c.ID)] = true
			}
		}
	}
	return p
}

// log is the log that a link leads to, and the directory of its pod; both are relative to the directory of logs. It isn't ok if the link
// isn't to a pod's log, nor if it is that of a container which may run: such a log is away for a moment when it is rotated.
func (p picture) log(link, target string) (dir, log string, ok bool) {
	if p.written[link] {
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
	return dir, log, below && ofPod(dir)
}

// ofPod tells whether a directory of logs has the name of a pod's, <namespace>_<name>_<uid>.
func ofPod(dir string) bool {
	// Neither namespaces nor names have underscores; a UID may.
	parts := strings.SplitN(dir, "_", 3)
	return len(parts) == 3 && len(validation.IsDNS1123Label(parts[0])) == 0 && len(validation.IsDNS1123Subdomain(parts[1])) == 0 &&
		criconfig.CheckUID(types.UID(parts[2])) == nil
}
