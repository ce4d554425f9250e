package validate

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podresource "k8s.io/component-helpers/resource"
)

// validatePodResources checks the resources of the pod as a whole, and that its containers' don't exceed them.
func validatePodResources(pod *v1.Pod, path *field.Path) field.ErrorList {
	r := pod.Spec.Resources
	if r == nil {
		return nil
	}
	var errs field.ErrorList
	if r.Claims != nil {
		errs = append(errs, field.Forbidden(path.Child("claims"), "only containers have claims"))
	}
	errs = append(errs, validateResources(r, validatePodResourceName, path)...)
	sum := podresource.AggregateContainerRequests(pod, podresource.PodResourcesOptions{})
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		have, want := r.Requests[name], sum[name]
		if _, ok := r.Requests[name]; ok && want.Cmp(have) > 0 {
			errs = append(errs, field.Invalid(path.Child("requests").Key(string(name)), have.String(), "must be at least the sum of the containers' requests"))
		}
	}
	sum = podresource.AggregateContainerLimits(pod, podresource.PodResourcesOptions{})
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		have, want := r.Limits[name], sum[name]
		if _, ok := r.Limits[name]; ok && IsHugePage(name) && want.Cmp(have) > 0 {
			errs = append(errs, field.Invalid(path.Child("limits").Key(string(name)), have.String(), "must be at least the sum of the containers' limits"))
		}
	}
	for i := range pod.Spec.Containers {
		limits := pod.Spec.Containers[i].Resources.Limits
		for _, name := range slices.Sorted(maps.Keys(limits)) {
			most, limit := r.Limits[name], limits[name]
			if _, ok := r.Limits[name]; ok && limit.Cmp(most) > 0 {
				at := field.NewPath("spec", "containers").Index(i).Child("resources", "limits").Key(string(name))
				errs = append(errs, field.Invalid(at, limit.String(), "must be at most the pod's limit"))
			}
		}
	}
	return errs
}

func validatePodResourceName(name v1.ResourceName, at *field.Path) field.ErrorList {
	if podresource.IsSupportedPodLevelResource(name) {
		return nil
	}
	supported := slices.DeleteFunc(sets.List(podresource.SupportedPodLevelResources()), IsHugePage)
	return field.ErrorList{field.NotSupported(at, name, supported)}
}

// IsHugePage reports whether name is a resource of huge pages, "hugepages-SIZE".
func IsHugePage(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}
