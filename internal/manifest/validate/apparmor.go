package validate

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxAppArmorProfile is the longest name of a profile: PATH_MAX, less the NUL.
const maxAppArmorProfile = 4095

func validateAppArmorProfile(p *v1.AppArmorProfile, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := oneOf(path.Child("type"), p.Type,
		v1.AppArmorProfileTypeLocalhost, v1.AppArmorProfileTypeRuntimeDefault, v1.AppArmorProfileTypeUnconfined)
	errs = append(errs, validateLocalhost(p.LocalhostProfile, p.Type == v1.AppArmorProfileTypeLocalhost, path)...)
	if name := p.LocalhostProfile; name != nil {
		at := path.Child("localhostProfile")
		if strings.TrimSpace(*name) != *name {
			errs = append(errs, field.Invalid(at, *name, "must not begin or end with white space"))
		}
		if len(*name) > maxAppArmorProfile {
			errs = append(errs, field.TooLong(at, *name, maxAppArmorProfile))
		}
	}
	return errs
}

// validateAppArmorAnnotations checks the annotations from before Kubernetes 1.30. The runtime gets one profile, so an
// annotation must equal the field.
func validateAppArmorAnnotations(pod *v1.Pod) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	eachContainer(&pod.Spec, func(c *v1.Container, _ *field.Path, _ bool) { names[c.Name] = true })
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		container, ok := strings.CutPrefix(key, v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix)
		if !ok {
			continue
		}
		at := field.NewPath("metadata", "annotations").Key(key)
		if !names[container] {
			errs = append(errs, field.Invalid(at, container, "the pod has no such container"))
		}
		if profile := pod.Annotations[key]; !isAppArmorAnnotation(profile) {
			errs = append(errs, field.Invalid(at, profile, "must be runtime/default, unconfined, or a name behind localhost/"))
		}
	}
	if pod.Spec.OS != nil && pod.Spec.OS.Name == v1.Windows {
		return errs
	}
	eachContainer(&pod.Spec, func(c *v1.Container, at *field.Path, _ bool) {
		annotation, ok := pod.Annotations[v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name]
		profile := pod.Spec.SecurityContext.AppArmorProfile
		if c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			profile = c.SecurityContext.AppArmorProfile
		}
		if ok && profile != nil && !isSameAppArmor(annotation, profile) {
			errs = append(errs, field.Forbidden(at.Child("securityContext", "appArmorProfile"), "must be the profile of the annotation"))
		}
	})
	return errs
}

func isAppArmorAnnotation(profile string) bool {
	return profile == "" || profile == v1.DeprecatedAppArmorBetaProfileRuntimeDefault ||
		profile == v1.DeprecatedAppArmorBetaProfileNameUnconfined || strings.HasPrefix(profile, v1.DeprecatedAppArmorBetaProfileNamePrefix)
}

// isSameAppArmor reports whether an annotation and a field name the same profile. A field of another type is refused
// for that reason.
func isSameAppArmor(annotation string, profile *v1.AppArmorProfile) bool {
	switch profile.Type {
	case v1.AppArmorProfileTypeUnconfined:
		return annotation == v1.DeprecatedAppArmorBetaProfileNameUnconfined
	case v1.AppArmorProfileTypeRuntimeDefault:
		return annotation == v1.DeprecatedAppArmorBetaProfileRuntimeDefault
	case v1.AppArmorProfileTypeLocalhost:
		return profile.LocalhostProfile != nil &&
			annotation == v1.DeprecatedAppArmorBetaProfileNamePrefix+*profile.LocalhostProfile
	}
	return true
}
