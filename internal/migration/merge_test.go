package migration_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/execsvc/decide/adoption"
	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/sourceconfig"
)

// sources are the origins of the sources of podconfigd on a node that had a kubelet.
type sources struct{ files, api []*manifest.Origin }

// file adds a manifest with pods; each is NAME/UID.
func (s *sources) file(pods ...string) {
	path := fmt.Sprintf("/manifests/%d.yaml", len(s.files))
	var text strings.Builder
	for i, p := range pods {
		name, uid, _ := strings.Cut(p, "/")
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s, uid: %s}\nspec: {containers: [{name: app, image: 'file:%d-%d'}]}\n",
			name, uid, len(s.files), i)
	}
	s.files = append(s.files, manifest.Parse([]byte(text.String()), manifest.Options{Origin: path, Node: "node1"}))
}

// pod adds a pod of the API server, or a mirror pod. The server lists them by name.
func (s *sources) pod(name, uid string, mirror bool) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid)},
		Spec: v1.PodSpec{NodeName: "node1", RestartPolicy: v1.RestartPolicyAlways, Containers: []v1.Container{
			{Name: "app", Image: "api:" + name + "-" + uid},
		}},
	}
	if mirror {
		pod.Annotations = map[string]string{podmeta.MirrorAnnotation: "x"}
	}
	s.api = append(s.api, manifest.Received("default/"+name, pod))
}

// pods returns the pods of origins.
func pods(origins []*manifest.Origin) (out []*v1.Pod) {
	for _, o := range origins {
		for _, p := range o.Pods {
			out = append(out, p.Pod)
		}
	}
	return out
}

// merged returns the pods that podconfigd serves, by UID. The API server is read first or last.
func (s *sources) merged(apiFirst bool) map[types.UID]*v1.Pod {
	m := merge.New([]merge.Source{{Name: string(sourceconfig.File)}, {Name: string(sourceconfig.API)}}, merge.Stored{})
	sets := []manifest.Set{{Source: "file", Origins: s.files, ReadTime: time.Now()}, {Source: "api", Origins: s.api, ReadTime: time.Now()}}
	if apiFirst {
		sets[0], sets[1] = sets[1], sets[0]
	}
	served := map[types.UID]*v1.Pod{}
	for _, set := range sets {
		rev := m.Apply(set)
		if rev == nil {
			continue
		}
		for _, c := range rev.Changes {
			for _, p := range c.Pods {
				if served[p.Object.UID] = p.Object; c.Op == revision.REMOVE {
					delete(served, p.Object.UID)
				}
			}
		}
	}
	return served
}

// runs is the pod as the kubelet runs it, with a container of that image.
func runs(pod *v1.Pod, image string) *observed.Pod {
	return &observed.Pod{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Source: "api",
		Sandboxes: []observed.Sandbox{{ID: "s", Ready: true, IPs: []string{"10.0.0.1"}}},
		Containers: []observed.Container{{
			ID: "c", Name: "app", SandboxID: "s", State: observed.Running,
			Hash: criconfig.ContainerHash(&v1.Container{Name: "app", Image: image}),
		}},
	}
}

// TestPlanIsTheMerge: of pods with one name or UID, the plan keeps those that podconfigd's merge serves, whichever source it reads
// first. Each running pod has the container of the pod that is served, so another choice would be a restart.
func TestPlanIsTheMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &sources{}
		name, uid := rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"u1", "u2", "u3", "u4"})
		for range rapid.IntRange(0, 3).Draw(t, "files") {
			var in []string
			for range rapid.IntRange(1, 2).Draw(t, "documents") {
				in = append(in, name.Draw(t, "name")+"/"+uid.Draw(t, "uid"))
			}
			s.file(in...)
		}
		for _, n := range []string{"a-node1", "b-node1", "d"} {
			if rapid.Bool().Draw(t, n) {
				s.pod(n, uid.Draw(t, "uid"), rapid.IntRange(0, 3).Draw(t, "mirror") == 0)
			}
		}
		served := s.merged(rapid.Bool().Draw(t, "the API server comes first"))
		in := adoption.Input{
			Static: adoption.Source{Known: true, Pods: pods(s.files)}, API: adoption.Source{Known: true, Pods: pods(s.api)}, Now: time.Now(),
		}
		for _, offered := range append(pods(s.files), pods(s.api)...) {
			want, image := adoption.Remove, "x"
			if w := served[offered.UID]; w != nil && w.Name == offered.Name && !podmeta.IsMirror(w) {
				want, image = adoption.Keep, w.Spec.Containers[0].Image
			}
			in.Pods = []*observed.Pod{runs(offered, image)}
			if got := adoption.Plan(in)[0]; got.Action != want && !(podmeta.IsMirror(offered) && got.Action == adoption.Restart) {
				t.Errorf("%s/%s with %s: %s: %s; want %s", offered.Name, offered.UID, image, got.Action, got.Reason, want)
			}
		}
	})
}
