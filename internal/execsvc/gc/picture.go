package gc

import (
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// picture is what is known of pods and their logs when a round begins.
type picture struct {
	// logsDir and linksDir are absolute.
	logsDir, linksDir string
	known             func(types.UID) bool
	// found are the pods that the runtime has.
	found map[types.UID]bool
	// written are the names of the links to the logs of containers that may still write.
	written map[string]bool
}

func newPicture(logsDir, linksDir string, found []*observed.Pod, known func(types.UID) bool) picture {
	p := picture{logsDir: logsDir, linksDir: linksDir, known: known, found: map[types.UID]bool{}, written: map[string]bool{}}
	for _, pod := range found {
		p.found[pod.UID] = true
		for _, c := range pod.Containers {
			if c.State != observed.Exited {
				p.written[criconfig.LogLinkName(pod.Namespace, pod.Name, c.Name, c.ID)] = true
			}
		}
	}
	return p
}

// orphan tells whether a directory of logs with that name is of a pod that is gone.
func (p picture) orphan(dir string) bool {
	uid, ok := podOf(dir)
	return ok && !p.found[uid] && !p.known(uid)
}

// log is the log that a link leads to, relative to the directory of logs. It is none if the link isn't to a pod's log, and none if it has
// to stay whether or not the log is there: of a container that may run the log is away for a moment when it is rotated, and of a pod that
// is known and wasn't found nobody can tell here whether it runs.
func (p picture) log(link, target string) (string, bool) {
	if p.written[link] {
		return "", false
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(p.linksDir, target)
	}
	path, err := filepath.Rel(p.logsDir, target)
	if err != nil || !filepath.IsLocal(path) {
		return "", false
	}
	dir, _, below := strings.Cut(path, string(filepath.Separator))
	uid, ok := podOf(dir)
	if !ok || !below || !p.found[uid] && p.known(uid) {
		return "", false
	}
	return path, true
}

// podOf is the UID in the name of a directory of logs, <namespace>_<name>_<uid>, and whether it is such a name.
func podOf(dir string) (types.UID, bool) {
	// Neither namespaces nor names have underscores; a UID may.
	parts := strings.SplitN(dir, "_", 3)
	if len(parts) != 3 || len(validation.IsDNS1123Label(parts[0])) > 0 || len(validation.IsDNS1123Subdomain(parts[1])) > 0 {
		return "", false
	}
	uid := types.UID(parts[2])
	return uid, criconfig.CheckUID(uid) == nil
}
