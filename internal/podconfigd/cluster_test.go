package podconfigd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// bound is a pod of the node at an API server.
func bound(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       v1.PodSpec{NodeName: "node", Containers: []v1.Container{{Name: "main", Image: "one"}}},
	}
}

// apiSource polls the source api until it is as wanted: ListSources has no events.
func (r *running) apiSource(what string, so func(*podconfigv1.Source) bool) *podconfigv1.Source {
	r.t.Helper()
	for late := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		sources := r.sources()
		if len(sources) == 1 && so(sources[0]) {
			return sources[0]
		}
		if time.Now().After(late) {
			r.t.Fatalf("%s: not within 30 s; the sources are %v", what, sources)
		}
	}
}

// TestAnotherCluster: another cluster without pods answers at the address of the API server. The node's pods stay, over a
// restart of podconfigd, too, and ListSources has the reason, until an operator confirms the change.
func TestAnotherCluster(t *testing.T) {
	dir, api := shortDir(t), apitest.New(t, apitest.Config{})
	kubeconfig, file := api.Kubeconfig(apitest.Identity{}), filepath.Join(dir, "root", clusterFile)
	api.Put(bound("a"), bound("b"))
	ours := string(api.Cluster())
	launchAPI := func() *running { return launchWith(t, dir, t.Output(), "--kubeconfig", kubeconfig) }
	served := func(s *podconfigv1.Source) bool {
		return s.GetReady() && s.GetPodCount() == 2 && s.GetLastError() == ""
	}
	refused := func(s *podconfigv1.Source) bool { return strings.Contains(s.GetLastError(), "is of another cluster") }

	r := launchAPI()
	r.apiSource("both pods", served)
	api.ReplaceStore()
	state := r.apiSource("the reason", refused)
	for _, want := range []string{ours, string(api.Cluster()), file, api.URL()} {
		if !strings.Contains(state.GetLastError(), want) {
			t.Errorf("the error is %q; want it to name %s", state.GetLastError(), want)
		}
	}
	if state.GetPodCount() != 2 {
		t.Errorf("%d pods are served; want both of the first cluster", state.GetPodCount())
	}
	r.stop()

	r = launchAPI()
	if state := r.apiSource("the reason", refused); state.GetReady() || state.GetPodCount() != 2 {
		t.Errorf("after the restart the source is ready: %v, with %d pods; want both pods of a source that isn't ready", state.GetReady(), state.GetPodCount())
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	r.apiSource("the second cluster's pods", func(s *podconfigv1.Source) bool {
		return s.GetReady() && s.GetPodCount() == 0 && s.GetLastError() == ""
	})
	if stored := read(t, file); !strings.Contains(stored, string(api.Cluster())) {
		t.Errorf("%s is stored; want the second cluster's UID", stored)
	}
}

// TestServiceMadeAgain: the stored pods of the node, which the API server still has, show that it is the same cluster.
func TestServiceMadeAgain(t *testing.T) {
	dir, api := shortDir(t), apitest.New(t, apitest.Config{})
	args := []string{"--kubeconfig", api.Kubeconfig(apitest.Identity{})}
	api.Put(bound("a"))
	served := func(s *podconfigv1.Source) bool {
		return s.GetReady() && s.GetPodCount() == 1 && s.GetLastError() == ""
	}
	r := launchWith(t, dir, t.Output(), args...)
	r.apiSource("the pod", served)
	r.stop()
	api.Put(&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", UID: "made-again"}}, bound("b"))
	r = launchWith(t, dir, t.Output(), args...)
	r.apiSource("both pods", func(s *podconfigv1.Source) bool {
		return s.GetReady() && s.GetPodCount() == 2 && s.GetLastError() == ""
	})
}

// TestClusterFlag: with --api-cluster-uid another cluster isn't used at the first start, either.
func TestClusterFlag(t *testing.T) {
	dir, api := shortDir(t), apitest.New(t, apitest.Config{})
	api.Put(bound("a"))
	r := launchWith(t, dir, t.Output(), "--kubeconfig", api.Kubeconfig(apitest.Identity{}), "--api-cluster-uid=another")
	state := r.apiSource("the reason", func(s *podconfigv1.Source) bool { return strings.Contains(s.GetLastError(), "not of another") })
	if state.GetReady() || state.GetPodCount() > 0 {
		t.Errorf("the source is ready: %v, with %d pods; want neither", state.GetReady(), state.GetPodCount())
	}
}
