package podexecapi

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// uses has the pods that use an image, by each name and ID that they have for it.
type uses map[string][]podview.Pod

// usesOf returns the uses by these pods: the images of their specs, and those that their containers run.
func usesOf(pods []podview.Pod) uses {
	u := uses{}
	for _, p := range pods {
		names := map[string]bool{}
		add := func(name string) {
			if name == "" {
				return
			}
			names[name] = true
			// Runtimes name images with the registry and the tag.
			if _, full, err := image.Canonical(name); err == nil {
				names[full] = true
			}
		}
		if p.Object != nil {
			addSpecImages(&p.Object.Spec, add)
		}
		if p.Status != nil {
			for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses) {
				add(c.Image)
				add(c.ImageID)
			}
		}
		for name := range names {
			u[name] = append(u[name], p)
		}
	}
	return u
}

func addSpecImages(spec *v1.PodSpec, add func(string)) {
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		add(c.Image)
	}
	for _, c := range spec.EphemeralContainers {
		add(c.Image)
	}
	for _, v := range spec.Volumes {
		if v.Image != nil {
			add(v.Image.Reference)
		}
	}
}

// of returns the pods that use the image, each once, by namespace, name and UID.
func (u uses) of(i *runtimeapi.Image) []*podconfigv1.PodRef {
	var pods []podview.Pod
	for _, name := range slices.Concat([]string{i.GetId()}, i.GetRepoTags(), i.GetRepoDigests()) {
		pods = append(pods, u[name]...)
	}
	slices.SortFunc(pods, func(a, b podview.Pod) int { return cmp.Compare(key(a), key(b)) })
	pods = slices.CompactFunc(pods, func(a, b podview.Pod) bool { return a.UID == b.UID })
	var refs []*podconfigv1.PodRef
	for _, p := range pods {
		refs = append(refs, reference(p))
	}
	return refs
}
