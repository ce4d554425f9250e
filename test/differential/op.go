package differential

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/config"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Sources are the configured sources, in order of priority.
var Sources = []string{"file", "http", "api"}

// Mode is a notification mode, with both sides' names for it.
type Mode struct {
	Name      string
	upstream  config.PodConfigNotificationMode
	podstream podconfigv1.NotificationMode
}

// The modes.
var (
	Incremental = Mode{
		"incremental", config.PodConfigNotificationIncremental, podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL,
	}
	SnapshotAndUpdates = Mode{
		"snapshot-and-updates", config.PodConfigNotificationSnapshotAndUpdates,
		podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT_AND_UPDATES,
	}
	Snapshot = Mode{"snapshot", config.PodConfigNotificationSnapshot, podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT}

	Modes = []Mode{Incremental, SnapshotAndUpdates, Snapshot}
)

// Step is one full set of one source. Both sides receive copies of its pods.
type Step struct {
	Source string
	Pods   []*v1.Pod
}

// Op is an op as a listener receives it: the pods of Podstream's REMOVE have only a name, namespace and UID.
type Op struct {
	// Op is SET, ADD, UPDATE, DELETE, REMOVE, RECONCILE or RESTORE.
	Op     string
	Source string
	Pods   []*v1.Pod
}

// String returns the op with its pods as NAME/UID, sorted.
func (o Op) String() string {
	text := o.Op + " " + o.Source + ":"
	for _, p := range sorted(o.Pods) {
		text += " " + p.Name + "/" + string(p.UID)
	}
	return text
}

// Text returns the ops on one line; "silence" if there are none.
func Text(ops []Op) string {
	if len(ops) == 0 {
		return "silence"
	}
	lines := make([]string, len(ops))
	for i, o := range ops {
		lines[i] = fmt.Sprint(o)
	}
	return strings.Join(lines, "; ")
}
