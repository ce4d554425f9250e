package manifest

import (
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
	for _, name := range sortedKeys(sum) {
		have, want := r.Requests[name], sum[name]
		if _, ok := r.Requests[name]; ok && want.Cmp(have) > 0 {
			errs = append(errs, field.Invalid(path.Child("requests").Key(string(name)), have.String(), "must be at least the sum of the containers' requests"))
		}
	}
	sum = podresource.AggregateContainerLimits(pod, podresource.PodResourcesOptions{})
	for _, name := range sortedKeys(sum) {
		have, want := r.Limits[name], sum[name]
		if _, ok := r.Limits[name]; ok && isHugePage(name) && want.Cmp(have) > 0 {
			errs = append(errs, field.Invalid(path.Child("limits").Key(string(name)), have.String(), "must be at least the sum of the containers' limits"))
		}
	}
	for i := range pod.Spec.Containers {
		limits := pod.Spec.Containers[i].Resources.Limits
		for _, name := range sortedKeys(limits) {
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
	supported := slices.DeleteFunc(sets.List(podresource.SupportedPodLevelResources()), isHugePage)
	return field.ErrorList{field.NotSupported(at, name, supported)}
}

func isHugePage(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

// defaultPodResources sets the requests of the pod as a whole, and its limits of huge pages, if it names any resource
// of the pod.
func defaultPodResources(pod *v1.Pod) {
	r := pod.Spec.Resources
	if r == nil || len(r.Limits) == 0 && len(r.Requests) == 0 {
		return
	}
	limits := podresource.AggregateContainerLimits(pod, podresource.PodResourcesOptions{})
	for name, quantity := range limits {
		_, requested := r.Requests[name]
		if isHugePage(name) && podresource.IsSupportedPodLevelResource(name) && !requested {
			setMissing(&r.Limits, name, quantity)
		}
	}
	if len(r.Limits) == 0 {
		return
	}
	requests := podresource.AggregateContainerRequests(pod, podresource.PodResourcesOptions{})
	for name, quantity := range requests {
		if podresource.IsSupportedPodLevelResource(name) && !isHugePage(name) {
			setMissing(&r.Requests, name, quantity)
		}
	}
	for name, quantity := range r.Limits {
		if podresource.IsSupportedPodLevelResource(name) {
			setMissing(&r.Requests, name, quantity)
		}
	}
}
