package podmeta

import (
	"fmt"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxFileName is the longest file name, in bytes, of the usual file systems.
const maxFileName = 255

// FullName returns NAME_NAMESPACE, as the kubelet's GetPodFullName does. Pods of one full name run one after the other.
func FullName(pod *v1.Pod) string { return pod.Name + "_" + pod.Namespace }

// LogName returns NAMESPACE/NAME, the value of the log key "pod".
func LogName(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

// LogDir returns the directory of a pod's logs: <logsDir>/<namespace>_<name>_<uid>.
func LogDir(logsDir, namespace, name string, uid types.UID) string {
	return filepath.Join(logsDir, namespace+"_"+name+"_"+string(uid))
}

// LogPath returns the path of the log of one attempt of a container, relative to the pod's LogDir.
func LogPath(container string, attempt uint32) string {
	return filepath.Join(container, fmt.Sprintf("%d.log", attempt))
}

// LogLinkName returns the name of the link to a container's log in /var/log/containers. Log collectors read the pod and
// container from this name. A name that is too long for a file is cut at its end, as the kubelet does.
func LogLinkName(namespace, name, container, id string) string {
	const suffix = ".log"
	link := name + "_" + namespace + "_" + container + "-" + id
	if len(link) > maxFileName-len(suffix) {
		link = link[:maxFileName-len(suffix)]
	}
	return link + suffix
}

// CheckPath rejects a pod whose directories would not be single elements beneath those of all pods. It has none then:
// admission checks it too. A namespace and a name of the API server or of a manifest never have slashes.
func CheckPath(pod *v1.Pod) error {
	if strings.ContainsAny(pod.Namespace+pod.Name, "/\x00") {
		return fmt.Errorf("namespace %q and name %q can't be part of the name of a directory", pod.Namespace, pod.Name)
	}
	return CheckUID(pod.UID)
}

// CheckUID rejects a UID that can't be the name of a directory. Directories of logs and volumes have the pod's UID as
// their name, and some UIDs come unchanged from manifests.
func CheckUID(uid types.UID) error {
	name := string(uid)
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") || len(name) > maxFileName {
		return fmt.Errorf("UID %q can't be the name of a directory", name)
	}
	return nil
}
