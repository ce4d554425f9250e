package objects

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deadline is how long a test waits for an expected event.
const deadline = 30 * time.Second

// objectHub is a Hub that receives sets like podconfigd's: their pods are merged by podHub.
type objectHub struct {
	*Hub
	podHub interface{ Apply(manifest.Set) }
}

// Apply takes in a set with its pods.
func (h *objectHub) Apply(set manifest.Set) {
	mergesvc.Intake{Pods: h.podHub, Objects: h.Hub}.Apply(set)
}

// newHubs returns the two hubs of a podconfigd with the sources file and api.
func newHubs(cfg Config) (*mergesvc.Hub, *objectHub) {
	pods := mergesvc.NewHub(mergesvc.Config{Sources: []merge.Source{{Name: "file"}, {Name: "api"}}})
	cfg.History = pods.History()
	return pods, &objectHub{New(cfg), pods}
}

// set returns a source's set with one origin for each pod and one for all objects.
func set(source string, pods []*manifest.Pod, objects ...*manifest.Object) manifest.Set {
	s := manifest.Set{Source: source, ReadTime: time.Unix(1, 0), Origins: []*manifest.Origin{{Name: "objects", Objects: objects}}}
	for _, p := range pods {
		s.Origins = append(s.Origins, &manifest.Origin{Name: string(p.UID), Pods: []*manifest.Pod{p}})
	}
	return s
}

// user returns a pod that refers to Secrets.
func user(name, node, label string, secrets ...string) *manifest.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), Labels: map[string]string{"l": label}},
		Spec:       v1.PodSpec{NodeName: node},
	}
	for _, s := range secrets {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: s})
	}
	return mergetest.Pod(p)
}

func secret(name, value string) *manifest.Object {
	o, err := manifest.NewSecret(&v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Data: map[string][]byte{"v": []byte(value)},
	})
	if err != nil {
		panic(err)
	}
	return o
}

func key(name string) manifest.ObjectKey {
	return manifest.ObjectKey{Kind: manifest.SecretKind, Namespace: "default", Name: name}
}

// everything returns a scope without limits.
func everything() Scope { return Scope{Match: func(*revision.Pod) bool { return true }} }

// text formats a snapshot: "a=1 b? c-" for a present, an unknown and a missing object.
func (s Snapshot) text() string {
	var words []string
	for _, item := range s.Items {
		words = append(words, item.Ref.Name+valueText(item.Value))
	}
	return strings.Join(words, " ")
}

func valueText(v Value) string {
	switch v.State {
	case Present:
		return "=" + string(v.Object.content.Secret.Data["v"])
	case Missing:
		return "-"
	default:
		return "?"
	}
}

// runHub follows the pods until the test ends.
func runHub(t *testing.T, h *Hub) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { h.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}
