package validate

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkName returns the error of an invalid resource name.
type checkName func(name v1.ResourceName, at *field.Path) field.ErrorList

// validateResources checks requests and limits, of a container or of the pod.
func validateResources(r *v1.ResourceRequirements, check checkName, path *field.Path) field.ErrorList {
	errs := validateQuantities(r.Limits, check, path.Child("limits"))
	errs = append(errs, validateQuantities(unequal(r.Requests, r.Limits), check, path.Child("requests"))...)
	errs = append(errs, validateHugePages(path, r.Limits, r.Requests)...)
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
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

// unequal returns the requests that differ from their limit: errors of the others are reported for the limit.
func unequal(requests, limits v1.ResourceList) v1.ResourceList {
	left := v1.ResourceList{}
	for name, request := range requests {
		if limit, ok := limits[name]; !ok || request.Cmp(limit) != 0 {
			left[name] = request
		}
	}
	return left
}

// isWhole reports whether a resource can't be overcommitted: huge pages, and all but the native ones.
func isWhole(name v1.ResourceName) bool { return IsHugePage(name) || isExtended(name) }

// isExtended reports whether a resource isn't one of Kubernetes' own.
func isExtended(name v1.ResourceName) bool {
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), v1.ResourceDefaultNamespacePrefix)
}

// validateHugePages refuses huge pages without cpu or memory.
func validateHugePages(path *field.Path, lists ...v1.ResourceList) field.ErrorList {
	huge, others := false, false
	for _, list := range lists {
		for name := range list {
			huge = huge || IsHugePage(name)
			others = others || name == v1.ResourceCPU || name == v1.ResourceMemory
		}
	}
	if huge && !others {
		return field.ErrorList{field.Forbidden(path, "huge pages need cpu or memory")}
	}
	return nil
}

func validateOverhead(overhead v1.ResourceList, path *field.Path) field.ErrorList {
	return append(validateQuantities(overhead, validateResourceName, path), validateHugePages(path, overhead)...)
}

// validateQuantities checks a resource list by itself.
func validateQuantities(list v1.ResourceList, check checkName, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(list)) {
		at := path.Key(string(name))
		errs = append(errs, check(name, at)...)
		switch quantity := list[name]; {
		case quantity.Sign() < 0:
			errs = append(errs, field.Invalid(at, quantity.String(), "must not be negative"))
		case IsHugePage(name):
			errs = append(errs, validateHugePage(name, quantity, at)...)
		case isExtended(name) && quantity.MilliValue()%1000 != 0:
			errs = append(errs, field.Invalid(at, quantity.String(), "must be a whole number"))
		}
	}
	return errs
}

// validateHugePage refuses a part of a page.
func validateHugePage(name v1.ResourceName, quantity resource.Quantity, at *field.Path) field.ErrorList {
	notASize := field.ErrorList{field.Invalid(at, string(name), "must name a page size, such as hugepages-2Mi")}
	size, ok := pageSize(strings.TrimPrefix(string(name), v1.ResourceHugePagesPrefix))
	if !ok || size.Value() <= 0 || size.MilliValue()%1000 != 0 {
		return notASize
	}
	if quantity.Value()%size.Value() != 0 {
		return field.ErrorList{field.Invalid(at, quantity.String(), "must be a multiple of the page size")}
	}
	return nil
}

// pageSize returns the size of huge pages that a resource or a medium names. It is false if the text names none, or
// must not be parsed.
func pageSize(text string) (resource.Quantity, bool) {
	if IsHugeQuantity(text) {
		return resource.Quantity{}, false
	}
	size, err := resource.ParseQuantity(text)
	return size, err == nil
}

func validateResourceName(name v1.ResourceName, at *field.Path) field.ErrorList {
	if messages := validation.IsQualifiedName(string(name)); len(messages) > 0 {
		return invalid(at, string(name), messages)
	}
	if strings.Contains(string(name), "/") {
		// A quota of the resource has this name, which has to be valid too.
		if quota := v1.DefaultResourceRequestsPrefix + string(name); isExtended(name) &&
			(strings.HasPrefix(string(name), v1.DefaultResourceRequestsPrefix) || len(validation.IsQualifiedName(quota)) > 0) {
			return field.ErrorList{field.Invalid(at, string(name), "can't be the name of a resource: it is too long, or begins with requests.")}
		}
		return nil
	}
	if IsHugePage(name) {
		return nil
	}
	return oneOf(at, name, v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage)
}
