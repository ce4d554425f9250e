package execsvc

import (
	"path/filepath"
	"slices"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// PodChanged is called for pods and mirror pods of the stream. After a restart the mirror pods are known without the
// stream.
func TestPodChanged(t *testing.T) {
	n := newNode(t)
	path := filepath.Join(t.TempDir(), "podexecd.db")
	l := n.startFrom(path)
	var mu sync.Mutex
	var reported []types.UID
	l.cfg.PodChanged = func(pod *v1.Pod) {
		mu.Lock()
		defer mu.Unlock()
		reported = append(reported, pod.UID)
	}
	mirror := newPod("m", "web", "api")
	mirror.Annotations[podmeta.MirrorAnnotation] = "hash"
	l.deliver(ops(change(client.Add, true, newPod("a", "web", "file")), change(client.Add, true, mirror)))
	if got := l.cfg.Mirrors.ByName("default", "web"); got == nil || got.UID != "m" {
		t.Errorf("the mirror pod of that name is %v; want m", got)
	}
	l.deliver(ops(change(client.Reconcile, true, mirror)))
	l.deliver(ops(change(client.Reconcile, true, newPod("a", "web", "file"))))
	l.stop()

	l = n.startFrom(path)
	l.awaitRunning("a")
	if got := l.cfg.Mirrors.ByName("default", "web"); got == nil || got.UID != "m" {
		t.Errorf("after a restart the mirror pod of that name is %v; want m", got)
	}
	if l.pods.Get("m") != nil {
		t.Error("after a restart the mirror pod is one to run")
	}
	l.deliver(ops(change(client.Remove, true, mirror)))
	if got := l.cfg.Mirrors.ByName("default", "web"); got != nil {
		t.Errorf("the mirror pod that was removed is still known: %v", got.UID)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []types.UID{"a", "m", "m", "a"}; !slices.Equal(reported, want) {
		t.Errorf("told of %v; want %v", reported, want)
	}
}
