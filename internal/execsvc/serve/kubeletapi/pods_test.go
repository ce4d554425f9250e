package kubeletapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// fakeRuntime has pods, or doesn't answer.
type fakeRuntime struct {
	pods []*observed.Pod
	err  error
}

func (f *fakeRuntime) List(context.Context) ([]*observed.Pod, error) { return f.pods, f.err }

func TestPods(t *testing.T) {
	b := podview.New()
	for _, name := range []string{"web", "db"} {
		b.Set(podview.Pod{
			UID: types.UID("uid-" + name), Namespace: "default", Name: name, Source: "file",
			Object: &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
				Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "img"}}}, Status: v1.PodStatus{Phase: v1.PodPending},
			},
			Status: &v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.88.0.2"},
		})
	}
	b.Set(podview.Pod{UID: "found", Namespace: "default", Name: "found"})
	runtime := &fakeRuntime{pods: []*observed.Pod{
		{UID: "b", Namespace: "default", Name: "web", Sandboxes: []observed.Sandbox{{Ready: true}}, Containers: []observed.Container{
			{Name: "main", Image: "img", State: observed.Running}, {Name: "init", State: observed.Exited},
		}},
		{UID: "a", Namespace: "default", Name: "ended", Sandboxes: []observed.Sandbox{{}}},
		{UID: "c", Namespace: "a", Name: "z", Sandboxes: []observed.Sandbox{{Ready: true}}},
	}}
	n := start(t, func(c *Config) { c.Pods, c.Runtime = b, runtime })
	list := func(path string) *v1.PodList {
		t.Helper()
		status, text := n.get(path)
		pods := &v1.PodList{}
		if err := json.Unmarshal([]byte(text), pods); err != nil || status != http.StatusOK || pods.Kind != "PodList" || pods.APIVersion != "v1" {
			t.Fatalf("%s: %d %v: %s", path, status, err, text)
		}
		return pods
	}
	pods := list("/pods")
	if len(pods.Items) != 2 || pods.Items[0].Name != "db" || pods.Items[1].Status.PodIP != "10.88.0.2" || pods.Items[1].Status.Phase != v1.PodRunning {
		t.Errorf("/pods: %+v", pods.Items)
	}
	want := []v1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "z", UID: "c"}},
		{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "b"},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "img"}}},
		},
	}
	if diff := cmp.Diff(want, list("/runningpods/").Items); diff != "" {
		t.Errorf("/runningpods/ (-want +got):\n%s", diff)
	}
	runtime.err = errors.New("the runtime is away")
	if status, text := n.get("/runningpods/"); status != http.StatusInternalServerError || !strings.Contains(text, "away") {
		t.Errorf("/runningpods/ without a runtime: %d %q", status, text)
	}
}
