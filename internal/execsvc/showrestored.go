package execsvc

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/loop/store"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// ShowRestored sets the pods of the store in the pod view, so that they are listed before the runtime has answered.
// The Agent replaces them once it runs.
func ShowRestored(b *podview.Board, restored store.State) {
	pods := map[types.UID]podview.Pod{}
	for _, known := range restored.Pods {
		if !podmeta.IsMirror(known.Object) {
			pods[known.UID] = podview.Pod{Namespace: known.Namespace, Name: known.Name, Source: known.Source, Desired: true, Object: known.Object}
		}
	}
	for uid, end := range restored.Ends {
		p, desired := pods[uid]
		if !desired {
			p = podview.Pod{Namespace: end.Namespace, Name: end.Name, Source: end.Source, Object: end.Object}
		}
		p.State = podexecv1.WorkerState_WORKER_STATE_TERMINATING
		pods[uid] = p
	}
	for uid, p := range pods {
		p.UID, p.WaitsFor = uid, "the container runtime to answer"
		if s, ok := restored.Statuses[uid]; ok {
			p.Status, p.Changed = s.Status, s.Changed
		}
		b.Set(p)
	}
}
