package admit

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// appArmor refuses a pod that relies on a profile which nobody would enforce, or which has no name.
func (c *checker) appArmor() {
	profiles := appArmorProfiles(c.pod)
	switch {
	case !c.node.AppArmor && slices.ContainsFunc(profiles, confines):
		c.refuse(AppArmor, "Cannot enforce AppArmor: AppArmor is not enabled on the host")
	case slices.ContainsFunc(profiles, nameless):
		c.refuse(AppArmor, "Cannot enforce AppArmor: invalid empty AppArmor profile name")
	}
}

// appArmorProfiles are all that the pod names for itself and its containers, also as annotations, as before Kubernetes 1.30.
func appArmorProfiles(pod *v1.Pod) []v1.AppArmorProfile {
	var all []v1.AppArmorProfile
	add := func(p *v1.AppArmorProfile) {
		if p != nil {
			all = append(all, *p)
		}
	}
	spec := &pod.Spec
	if spec.SecurityContext != nil {
		add(spec.SecurityContext.AppArmorProfile)
	}
	containers := slices.Concat(spec.InitContainers, spec.Containers)
	for i := range spec.EphemeralContainers {
		containers = append(containers, v1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	for i := range containers {
		if sc := containers[i].SecurityContext; sc != nil {
			add(sc.AppArmorProfile)
		}
	}
	for key, value := range pod.Annotations {
		if strings.HasPrefix(key, v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) {
			add(annotatedProfile(value))
		}
	}
	return all
}

func annotatedProfile(value string) *v1.AppArmorProfile {
	if name, local := strings.CutPrefix(value, v1.DeprecatedAppArmorBetaProfileNamePrefix); local {
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	}
	if value == v1.DeprecatedAppArmorBetaProfileNameUnconfined {
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}
	}
	// Anything else is meant to confine.
	return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}
}

func confines(p v1.AppArmorProfile) bool { return p.Type != v1.AppArmorProfileTypeUnconfined }

func nameless(p v1.AppArmorProfile) bool {
	return p.Type == v1.AppArmorProfileTypeLocalhost && (p.LocalhostProfile == nil || strings.TrimSpace(*p.LocalhostProfile) == "")
}
