package nodestatus

import (
	"cmp"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// namesPerImage is how many names of an image the status has.
const namesPerImage = 5

// images returns the largest images, with names by digest first, in an order that doesn't depend on the runtime's.
func images(on []*runtimeapi.Image, most int) []v1.ContainerImage {
	sorted := slices.Clone(on)
	slices.SortFunc(sorted, func(a, b *runtimeapi.Image) int {
		return cmp.Or(cmp.Compare(b.GetSize(), a.GetSize()), cmp.Compare(b.GetId(), a.GetId()))
	})
	if most >= 0 && len(sorted) > most {
		sorted = sorted[:most]
	}
	var out []v1.ContainerImage
	for _, image := range sorted {
		names := slices.Concat(slices.Sorted(slices.Values(image.GetRepoDigests())), slices.Sorted(slices.Values(image.GetRepoTags())))
		out = append(out, v1.ContainerImage{
			Names:     names[:min(len(names), namesPerImage)],
			SizeBytes: int64(min(image.GetSize(), math.MaxInt64)), //nolint:gosec // The size is bounded.
		})
	}
	return out
}
