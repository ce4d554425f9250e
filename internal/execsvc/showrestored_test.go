package execsvc

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/loop/store"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// Before the runtime answers, the pods of the store are shown as they were, also terminating ones; mirror pods are not
// shown.
func TestShowRestored(t *testing.T) {
	known := func(uid types.UID, annotations map[string]string) client.Pod {
		pod := newPod(uid, string(uid), "file")
		pod.Annotations = annotations
		return client.Pod{UID: uid, Namespace: "default", Name: string(uid), Source: "file", Object: pod}
	}
	ready, since := &v1.PodStatus{Phase: v1.PodRunning}, time.Unix(100, 0)
	b := podview.New()
	ShowRestored(b, store.State{
		Pods:     []client.Pod{known("runs", nil), known("ends", nil), known("mirror", map[string]string{podmeta.MirrorAnnotation: "x"})},
		Statuses: map[types.UID]store.Status{"runs": {Status: ready, Changed: since}},
		Ends:     map[types.UID]store.End{"ends": {UID: "ends"}, "removed": {UID: "removed", Namespace: "default", Name: "removed", Removed: true}},
	})
	if all := b.All(); len(all) != 3 {
		t.Errorf("%d pods are shown; want 3", len(all))
	}
	if p, _ := b.Get("runs"); p.Status != ready || !p.Changed.Equal(since) || !p.Desired || p.Object == nil || p.State != 0 {
		t.Errorf("a pod that ran is shown as %+v", p)
	}
	for uid, desired := range map[types.UID]bool{"ends": true, "removed": false} {
		if p, _ := b.Get(uid); p.State != podexecv1.WorkerState_WORKER_STATE_TERMINATING || p.Desired != desired || p.Name != string(uid) {
			t.Errorf("a terminating pod is shown as %+v", p)
		}
	}
}
