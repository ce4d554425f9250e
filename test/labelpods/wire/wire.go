// Package wire has the requests to the program labelpods, and its answers. It is built with two versions of the
// Kubernetes libraries, and so imports none.
package wire

import "encoding/json"

// Request is a volume of a pod on a node with SELinux.
type Request struct {
	// Pod is a v1.Pod, and Volume the name of its volume.
	Pod    json.RawMessage
	Volume string
	// Mountable is seLinuxMount of the CSIDriver. Persistent is set for a PersistentVolume with these access modes.
	Mountable, Persistent bool
	Modes                 []string
	// Gate is the feature gate SELinuxMount.
	Gate bool
}

// Answer is podexecd's decision.
type Answer struct {
	// Context is the SELinux context with which the volume is mounted; empty: none.
	Context string
	// Matters is set if a pod with another one waits.
	Matters bool
	// Multiple is set if the pod waits because its containers have different labels, and Error if it waits for another reason.
	Multiple bool
	Error    string
}

// FileLabel is the label of files by the policy of both sides, which is like Fedora's: a container's role and type don't change it.
func FileLabel(user, level string) string {
	if user == "" {
		user = "system_u"
	}
	return user + ":object_r:container_file_t:" + level
}
