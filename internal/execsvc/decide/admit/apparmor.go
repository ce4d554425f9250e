package admit

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
)

// The kubelet's messages for profiles that can't be enforced.
const (
	noAppArmor      = "Cannot enforce AppArmor: AppArmor is not enabled on the host"
	namelessProfile = "Cannot enforce AppArmor: invalid empty AppArmor profile name"
)

// podAppArmor rejects a pod with a profile that would not be enforced, or that has no name. Ephemeral containers don't
// count: they are added to admitted pods.
func (c *checker) podAppArmor() {
	if c.begun() {
		return
	}
	profiles := appArmorProfiles(c.pod)
	switch {
	case !c.node.AppArmor && slices.ContainsFunc(profiles, confines):
		c.reject(AppArmor, noAppArmor)
	case slices.ContainsFunc(profiles, nameless):
		c.reject(AppArmor, namelessProfile)
	}
}

// begun reports whether the pod was admitted, perhaps before the node was restarted. The kubelet doesn't check
// AppArmor for a pod that has started either.
func (c *checker) begun() bool {
	phase := c.pod.Status.Phase
	return c.admitted || phase != "" && phase != v1.PodPending
}

// containerAppArmor records a lack for a container whose profile can't be enforced: an ephemeral one, or one of a pod
// that was changed after it was admitted.
func (c *checker) containerAppArmor(path string, ct *v1.Container) {
	if !c.begun() && !strings.HasPrefix(path, "spec.ephemeralContainers") {
		return
	}
	profile := containerProfile(c.pod, ct)
	switch {
	case profile == nil:
	case !c.node.AppArmor && confines(*profile):
		c.containerLack(ct.Name, path+".securityContext.appArmorProfile", noAppArmor)
	case nameless(*profile):
		c.containerLack(ct.Name, path+".securityContext.appArmorProfile", namelessProfile)
	}
}

// containerProfile returns the profile of one container, or nil.
func containerProfile(pod *v1.Pod, ct *v1.Container) *v1.AppArmorProfile {
	profile, err := criconfig.AppArmorProfile(pod, ct)
	if err != nil {
		return &unknownProfile
	}
	return profile
}

// unknownProfile stands for an unreadable profile, which counts as one that confines.
var unknownProfile = v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}

// appArmorProfiles returns the profiles of the pod and its containers, and those of annotations, as before Kubernetes
// 1.30.
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
	for _, ct := range slices.Concat(spec.InitContainers, spec.Containers) {
		if sc := ct.SecurityContext; sc != nil {
			add(sc.AppArmorProfile)
		}
	}
	for key, value := range pod.Annotations {
		if strings.HasPrefix(key, v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) {
			add(cmp.Or(criconfig.AnnotatedAppArmorProfile(value), &unknownProfile))
		}
	}
	return all
}

func confines(p v1.AppArmorProfile) bool { return p.Type != v1.AppArmorProfileTypeUnconfined }

func nameless(p v1.AppArmorProfile) bool {
	return p.Type == v1.AppArmorProfileTypeLocalhost && (p.LocalhostProfile == nil || strings.TrimSpace(*p.LocalhostProfile) == "")
}
