package mergetest

import (
	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/view"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// DrawView draws the request and the scope of a consumer of the sources and of Varied pods: often everything, else a
// part.
func DrawView(t *rapid.T, mode podconfigv1.NotificationMode, sources ...string) *view.View {
	some := func(what string, all ...string) []string {
		if rapid.IntRange(0, 2).Draw(t, "asks for "+what) > 0 {
			return nil
		}
		return rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, len(all), rapid.ID).Draw(t, what)
	}
	v, err := view.New(view.Config{
		Mode: mode,
		Filter: &podconfigv1.PodFilter{
			Sources: some("sources", sources...), Nodes: some("nodes", "node-0", "node-1"),
			Namespaces: some("namespaces", "default", "kube"), Names: some("names", "n0", "n1", "n2"),
			LabelSelector: rapid.SampledFrom([]string{"", "", "tier=a", "tier!=a"}).Draw(t, "selector"),
		},
		Sources: some("scope", sources...), Redacted: rapid.Bool().Draw(t, "redacted"),
	})
	if err != nil {
		panic(err)
	}
	return v
}

// Varied is a Random whose pods differ in what filters select: labels, nodes and namespaces.
type Varied struct {
	random *Random
	// varied are the origins by those that random drew, so that they keep their pointers.
	varied map[*manifest.Origin]*manifest.Origin
}

// NewVaried returns a Varied for the named sources.
func NewVaried(sources ...string) *Varied {
	return &Varied{random: NewRandom(sources...), varied: map[*manifest.Origin]*manifest.Origin{}}
}

// Draw draws the next set.
func (r *Varied) Draw(t *rapid.T) manifest.Set {
	set := r.random.Draw(t)
	// The next set is drawn from this slice.
	origins := set.Origins
	set.Origins = make([]*manifest.Origin, 0, len(origins))
	for _, o := range origins {
		if r.varied[o] == nil {
			r.varied[o] = vary(t, o)
		}
		set.Origins = append(set.Origins, r.varied[o])
	}
	return set
}

func vary(t *rapid.T, o *manifest.Origin) *manifest.Origin {
	out := *o
	out.Pods = nil
	for _, p := range o.Pods {
		obj := p.DeepCopy()
		obj.Labels = map[string]string{"tier": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tier")}
		obj.Spec.NodeName = rapid.SampledFrom([]string{"node-0", "node-0", "node-1"}).Draw(t, "node")
		obj.Namespace = rapid.SampledFrom([]string{"default", "default", "default", "kube"}).Draw(t, "namespace")
		// An inspector doesn't see that it changes.
		hidden := v1.EnvVar{Name: "PASSWORD", Value: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "hidden value")}
		obj.Spec.Containers[0].Env = append(obj.Spec.Containers[0].Env, hidden)
		if _, mirror := obj.Annotations[manifest.MirrorAnnotation]; mirror {
			// It has the name of another source's pod, but never that of another pod of its own.
			obj.Name = "mirrored-" + obj.Name
		}
		varied := Pod(obj)
		varied.Document = p.Document
		out.Pods = append(out.Pods, varied)
	}
	return &out
}
