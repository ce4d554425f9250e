package manifest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateResources checks requests and limits, of a container or of the pod.
func validateResources(r *v1.ResourceRequirements, path *field.Path) field.ErrorList {
	errs := validateQuantities(r.Limits, path.Child("limits"))
	errs = append(errs, validateQuantities(unequal(r.Requests, r.Limits), path.Child("requests"))...)
	for _, name := range sortedKeys(r.Requests) {
		request := r.Requests[name]
		limit, limited := r.Limits[name]
		at := path.Child("requests").Key(string(name))
		switch {
		case limited && request.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(at, request.String(), "must be at most the limit"))
		case !limited && isWhole(name):
			errs = append(errs, field.Required(path.Child("limits").Key(string(name)), "this resource can't be had without a limit"))
		case limited && isWhole(name) && request.Cmp(limit) != 0:
			errs = append(errs, field.Invalid(at, request.String(), "must be the limit"))
		}
	}
	return errs
}

// unequal is the requests that aren't their limit: what is wrong with the others has been told of the limit.
func unequal(requests, limits v1.ResourceList) v1.ResourceList {
	left := v1.ResourceList{}
	for name, request := range requests {
		if limit, ok := limits[name]; !ok || request.Cmp(limit) != 0 {
			left[name] = request
		}
	}
	return left
}

// isWhole tells whether a resource can't be shared out beyond what there is: huge pages, and all but the native ones.
func isWhole(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) || strings.Contains(string(name), "/")
}

// validateQuantities checks a resource list by itself.
func validateQuantities(list v1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sortedKeys(list) {
		at := path.Key(string(name))
		errs = append(errs, validateResourceName(name, at)...)
		if quantity := list[name]; quantity.Sign() < 0 {
			errs = append(errs, field.Invalid(at, quantity.String(), "must not be negative"))
		} else if isWhole(name) && quantity.MilliValue()%1000 != 0 {
			errs = append(errs, field.Invalid(at, quantity.String(), "must be a whole number"))
		}
	}
	return errs
}

func validateResourceName(name v1.ResourceName, at *field.Path) field.ErrorList {
	if messages := validation.IsQualifiedName(string(name)); len(messages) > 0 {
		return invalid(at, string(name), messages)
	}
	if isWhole(name) {
		return nil
	}
	return oneOf(at, name, v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage)
}
