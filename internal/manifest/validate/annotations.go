package validate

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Annotations that Kubernetes reads.
const (
	tolerationsAnnotation = v1.TolerationsAnnotationKey
	deletionCost          = v1.PodDeletionCost
)

// wholeNumber is a decimal number without a plus sign and leading zeros.
var wholeNumber = regexp.MustCompile(`^(0|[1-9][0-9]*|-[0-9]+)$`)

// validateAnnotations checks the values of the annotations that Kubernetes reads.
func validateAnnotations(pod *v1.Pod) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("metadata", "annotations")
	if text := pod.Annotations[tolerationsAnnotation]; text != "" {
		at := path.Key(tolerationsAnnotation)
		var tolerations []v1.Toleration
		if err := json.Unmarshal([]byte(text), &tolerations); err != nil {
			errs = append(errs, field.Invalid(at, text, "must be a list of tolerations in JSON"))
		}
		errs = append(errs, validateTolerations(tolerations, at)...)
	}
	if text, ok := pod.Annotations[deletionCost]; ok {
		if _, err := strconv.ParseInt(text, 10, 32); err != nil || !wholeNumber.MatchString(text) {
			errs = append(errs, field.Invalid(path.Key(deletionCost), text, "must be a 32 bit integer"))
		}
	}
	errs = append(errs, validateSeccompAnnotations(pod)...)
	return append(errs, validateAppArmorAnnotations(pod)...)
}

// validateSeccompAnnotations checks the annotations from before Kubernetes 1.19. They have no effect, but mustn't
// contradict the fields.
func validateSeccompAnnotations(pod *v1.Pod) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("metadata", "annotations")
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if key != v1.SeccompPodAnnotationKey && !strings.HasPrefix(key, v1.SeccompContainerAnnotationKeyPrefix) {
			continue
		}
		profile := pod.Annotations[key]
		local, ok := strings.CutPrefix(profile, v1.SeccompLocalhostProfileNamePrefix)
		switch {
		case ok:
			errs = append(errs, validateRelative(local, path.Key(key))...)
		case profile != v1.SeccompProfileNameUnconfined && !isDefaultSeccomp(profile):
			errs = append(errs, field.Invalid(path.Key(key), profile, "must be runtime/default, unconfined, or a path behind localhost/"))
		}
	}
	check := func(key string, profile *v1.SeccompProfile, at *field.Path) {
		if annotation, ok := pod.Annotations[key]; ok && profile != nil && !isSameSeccomp(annotation, profile) {
			errs = append(errs, field.Forbidden(at.Child("securityContext", "seccompProfile"), "must be the profile of the annotation"))
		}
	}
	check(v1.SeccompPodAnnotationKey, pod.Spec.SecurityContext.SeccompProfile, field.NewPath("spec"))
	eachContainer(&pod.Spec, func(c *v1.Container, at *field.Path, _ bool) {
		if c.SecurityContext != nil {
			check(v1.SeccompContainerAnnotationKeyPrefix+c.Name, c.SecurityContext.SeccompProfile, at)
		}
	})
	return errs
}

func isDefaultSeccomp(profile string) bool {
	return profile == v1.SeccompProfileRuntimeDefault || profile == v1.DeprecatedSeccompProfileDockerDefault
}

// isSameSeccomp reports whether an annotation and a field name the same profile. A field of another type is refused
// for that reason.
func isSameSeccomp(annotation string, profile *v1.SeccompProfile) bool {
	switch profile.Type {
	case v1.SeccompProfileTypeUnconfined:
		return annotation == v1.SeccompProfileNameUnconfined
	case v1.SeccompProfileTypeRuntimeDefault:
		return isDefaultSeccomp(annotation)
	case v1.SeccompProfileTypeLocalhost:
		return profile.LocalhostProfile != nil && annotation == v1.SeccompLocalhostProfileNamePrefix+*profile.LocalhostProfile
	}
	return true
}
