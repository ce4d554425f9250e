package criconfig

import (
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// maxFileName is the longest name of a file on the usual file systems.
const maxFileName = 255

// LogDir is the directory of a pod's logs: <logsDir>/<namespace>_<name>_<uid>.
func LogDir(logsDir, namespace, name string, uid types.UID) string {
	return filepath.Join(logsDir, namespace+"_"+name+"_"+string(uid))
}

// LogPath is the log of one attempt of a container, relative to the pod's LogDir.
func LogPath(container string, attempt uint32) string {
	return filepath.Join(container, fmt.Sprintf("%d.log", attempt))
}

// LogLinkName is the name in /var/log/containers of the link to a container's log, by which log collectors know whose it is. A
// name that is too long for a file is cut at its end, as the kubelet does.
func LogLinkName(namespace, name, container, id string) string {
	const suffix = ".log"
	link := name + "_" + namespace + "_" + container + "-" + id
	if len(link) > maxFileName-len(suffix) {
		link = link[:maxFileName-len(suffix)]
	}
	return link + suffix
}

// CheckUID refuses a UID that can't name a directory. UIDs are names of directories, of logs and of volumes, and some come from
// manifests as they were written.
func CheckUID(uid types.UID) error {
	name := string(uid)
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") || len(name) > maxFileName {
		return fmt.Errorf("UID %q can't be the name of a directory", name)
	}
	return nil
}
