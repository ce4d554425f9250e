package execsvc

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/board"
	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/store"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// ShowRestored puts the pods of the store on the board, as they were when it was last written: who asks before the runtime has answered is
// told of them, and not that there are none. The Agent shows them anew once it runs.
func ShowRestored(b *board.Board, restored store.State) {
	pods := map[types.UID]board.Pod{}
	for _, known := range restored.Pods {
		if !criconfig.Mirror(known.Object) {
			pods[known.UID] = board.Pod{Namespace: known.Namespace, Name: known.Name, Source: known.Source, Desired: true, Object: known.Object}
		}
	}
	for uid, end := range restored.Ends {
		p, desired := pods[uid]
		if !desired {
			p = board.Pod{Namespace: end.Namespace, Name: end.Name, Source: end.Source, Object: end.Object}
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
