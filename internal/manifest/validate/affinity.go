package validate

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxWeight is the highest weight of a preference.
const maxWeight = 100

func validateAffinity(a *v1.Affinity, path *field.Path) field.ErrorList {
	if a == nil {
		return nil
	}
	var errs field.ErrorList
	if a.NodeAffinity != nil {
		errs = append(errs, validateNodeAffinity(a.NodeAffinity, path.Child("nodeAffinity"))...)
	}
	if p := a.PodAffinity; p != nil {
		errs = append(errs, validatePodTerms(p.RequiredDuringSchedulingIgnoredDuringExecution,
			p.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"))...)
	}
	if p := a.PodAntiAffinity; p != nil {
		errs = append(errs, validatePodTerms(p.RequiredDuringSchedulingIgnoredDuringExecution,
			p.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"))...)
	}
	return errs
}

func validateNodeAffinity(a *v1.NodeAffinity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if selector := a.RequiredDuringSchedulingIgnoredDuringExecution; selector != nil {
		at := path.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
		if len(selector.NodeSelectorTerms) == 0 {
			errs = append(errs, field.Required(at, "must have at least one term"))
		}
		for i := range selector.NodeSelectorTerms {
			errs = append(errs, validateNodeTerm(&selector.NodeSelectorTerms[i], true, at.Index(i))...)
		}
	}
	for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		term := &a.PreferredDuringSchedulingIgnoredDuringExecution[i]
		at := path.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		errs = append(errs, inRange(at.Child("weight"), &term.Weight, 1, maxWeight)...)
		errs = append(errs, validateNodeTerm(&term.Preference, false, at.Child("preference"))...)
	}
	return errs
}

// validateNodeTerm checks one term. The values of a preference needn't be those of labels.
func validateNodeTerm(term *v1.NodeSelectorTerm, required bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range term.MatchExpressions {
		errs = append(errs, validateNodeExpression(&term.MatchExpressions[i], required, path.Child("matchExpressions").Index(i))...)
	}
	for i := range term.MatchFields {
		errs = append(errs, validateNodeField(&term.MatchFields[i], path.Child("matchFields").Index(i))...)
	}
	return errs
}

func validateNodeExpression(r *v1.NodeSelectorRequirement, required bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	values := path.Child("values")
	switch r.Operator {
	case v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(values, "the operator needs values"))
		}
	case v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			errs = append(errs, field.Forbidden(values, "the operator takes no values"))
		}
	case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(values, "the operator takes exactly one value"))
		}
	default:
		errs = append(errs, oneOf(path.Child("operator"), r.Operator, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn,
			v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist, v1.NodeSelectorOpGt, v1.NodeSelectorOpLt)...)
	}
	errs = append(errs, metavalidation.ValidateLabelName(r.Key, path.Child("key"))...)
	if required {
		for i, value := range r.Values {
			errs = append(errs, invalid(values.Index(i), value, validation.IsValidLabelValue(value))...)
		}
	}
	return errs
}

// validateNodeField checks a requirement of a field of the Node: only its name can be selected.
func validateNodeField(r *v1.NodeSelectorRequirement, path *field.Path) field.ErrorList {
	errs := oneOf(path.Child("operator"), r.Operator, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn)
	if len(errs) == 0 && len(r.Values) != 1 {
		errs = append(errs, field.Required(path.Child("values"), "must have exactly one value"))
	}
	if r.Key != metav1.ObjectNameField {
		return append(errs, oneOf(path.Child("key"), r.Key, metav1.ObjectNameField)...)
	}
	for i, value := range r.Values {
		errs = append(errs, invalid(path.Child("values").Index(i), value, validation.IsDNS1123Subdomain(value))...)
	}
	return errs
}

func validatePodTerms(required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range required {
		errs = append(errs, validatePodTerm(&required[i], path.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i))...)
	}
	for i := range preferred {
		at := path.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		errs = append(errs, inRange(at.Child("weight"), &preferred[i].Weight, 1, maxWeight)...)
		errs = append(errs, validatePodTerm(&preferred[i].PodAffinityTerm, at.Child("podAffinityTerm"))...)
	}
	return errs
}

func validatePodTerm(term *v1.PodAffinityTerm, path *field.Path) field.ErrorList {
	errs := validateSelector(term.LabelSelector, path.Child("labelSelector"))
	errs = append(errs, validateSelector(term.NamespaceSelector, path.Child("namespaceSelector"))...)
	for i, namespace := range term.Namespaces {
		errs = append(errs, invalid(path.Child("namespaces").Index(i), namespace, validation.IsDNS1123Label(namespace))...)
	}
	errs = append(errs, validateLabelKeys(term.MatchLabelKeys, term.MismatchLabelKeys, term.LabelSelector, path)...)
	return append(errs, metavalidation.ValidateLabelName(term.TopologyKey, path.Child("topologyKey"))...)
}

func validateSelector(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	return sorted(metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{}, path))
}

// validateLabelKeys checks the keys whose values in the pod itself are added to a selector.
func validateLabelKeys(match, mismatch []string, selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, keys := range []struct {
		field string
		keys  []string
	}{{"matchLabelKeys", match}, {"mismatchLabelKeys", mismatch}} {
		at := path.Child(keys.field)
		if len(keys.keys) > 0 && selector == nil {
			errs = append(errs, field.Forbidden(at, "needs a labelSelector"))
			continue
		}
		for i, key := range keys.keys {
			errs = append(errs, metavalidation.ValidateLabelName(key, at.Index(i))...)
		}
	}
	mismatched := sets.New(mismatch...)
	doubled := doubledInSelector(selector)
	for i, key := range match {
		at := path.Child("matchLabelKeys").Index(i)
		if mismatched.Has(key) {
			errs = append(errs, field.Invalid(at, key, "is in mismatchLabelKeys too"))
		}
		if doubled.Has(key) {
			errs = append(errs, field.Invalid(at, key, "is in the labelSelector too"))
		}
	}
	return errs
}

// doubledInSelector returns the keys that a selector has more than once. The first occurrence may stand for a
// matchLabelKey.
func doubledInSelector(selector *metav1.LabelSelector) sets.Set[string] {
	doubled := sets.New[string]()
	if selector == nil {
		return doubled
	}
	seen := sets.KeySet(selector.MatchLabels)
	for _, r := range selector.MatchExpressions {
		if seen.Has(r.Key) {
			doubled.Insert(r.Key)
		}
		seen.Insert(r.Key)
	}
	return doubled
}
