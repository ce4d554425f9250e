package criconfig

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

// seccomp returns the container's seccomp profile. As in the kubelet, nil is unconfined, unless the node has another
// default.
func seccomp(profile *v1.SeccompProfile, node *Node) (*runtimeapi.SecurityProfile, error) {
	kind := v1.SeccompProfileTypeUnconfined
	switch {
	case profile != nil:
		kind = profile.Type
	case node.SeccompDefault:
		kind = v1.SeccompProfileTypeRuntimeDefault
	}
	switch kind {
	case v1.SeccompProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, nil
	case v1.SeccompProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, nil
	case v1.SeccompProfileTypeLocalhost:
		return seccompFile(ptr.Deref(profile.LocalhostProfile, ""), node.SeccompDir)
	default:
		return nil, fmt.Errorf("seccompProfile: there is no type %q", kind)
	}
}

// seccompFile returns the profile of that name on the node.
func seccompFile(name, dir string) (*runtimeapi.SecurityProfile, error) {
	switch {
	case dir == "":
		return nil, errors.New("seccompProfile: type Localhost: the node has no directory of profiles")
	case name == "":
		return nil, errors.New("seccompProfile: type Localhost needs a localhostProfile")
	case !filepath.IsLocal(name):
		return nil, fmt.Errorf("seccompProfile: localhostProfile %q isn't beneath the node's directory of profiles", name)
	}
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: filepath.Join(dir, name)}, nil
}

// AppArmorProfile returns the profile of the container, or else of its pod; nil: there is none. Static pods may use an
// annotation; the API server converts those to fields.
func AppArmorProfile(pod *v1.Pod, c *v1.Container) (*v1.AppArmorProfile, error) {
	if sc := c.SecurityContext; sc != nil && sc.AppArmorProfile != nil {
		return sc.AppArmorProfile, nil
	}
	key := v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + c.Name
	if text, annotated := pod.Annotations[key]; annotated {
		profile := AnnotatedAppArmorProfile(text)
		if profile == nil {
			return nil, fmt.Errorf("annotation %s: there is no AppArmor profile %q", key, text)
		}
		return profile, nil
	}
	if sc := pod.Spec.SecurityContext; sc != nil {
		return sc.AppArmorProfile, nil
	}
	return nil, nil
}

// AnnotatedAppArmorProfile returns the profile that the text of an annotation names; nil: the text is invalid.
func AnnotatedAppArmorProfile(text string) *v1.AppArmorProfile {
	name, local := strings.CutPrefix(text, v1.DeprecatedAppArmorBetaProfileNamePrefix)
	switch {
	case local:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	case text == v1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}
	case text == v1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}
	}
	return nil
}

// apparmor returns nil, the runtime's default, if there is no profile.
func apparmor(profile *v1.AppArmorProfile) (*runtimeapi.SecurityProfile, error) {
	if profile == nil {
		return nil, nil
	}
	switch profile.Type {
	case v1.AppArmorProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, nil
	case v1.AppArmorProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, nil
	case v1.AppArmorProfileTypeLocalhost:
		name := ptr.Deref(profile.LocalhostProfile, "")
		if name == "" {
			return nil, errors.New("appArmorProfile: type Localhost needs a localhostProfile")
		}
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: name}, nil
	default:
		return nil, fmt.Errorf("appArmorProfile: there is no type %q", profile.Type)
	}
}

// selinux returns the container's own label, or else the pod's. As in the kubelet, the two are never mixed: a field that
// the container's label lacks is the runtime's default. Nil: there is none.
func selinux(own, pods *v1.SELinuxOptions) *runtimeapi.SELinuxOption {
	label := cmp.Or(own, pods)
	if label == nil {
		return nil
	}
	return &runtimeapi.SELinuxOption{User: label.User, Role: label.Role, Type: label.Type, Level: label.Level}
}

func capabilities(c *v1.Capabilities) *runtimeapi.Capability {
	if c == nil {
		return nil
	}
	out := &runtimeapi.Capability{}
	for _, name := range c.Add {
		out.AddCapabilities = append(out.AddCapabilities, string(name))
	}
	for _, name := range c.Drop {
		out.DropCapabilities = append(out.DropCapabilities, string(name))
	}
	return out
}

// noNewPrivs reports whether the container's processes can never gain privileges. It is false for a container that has
// them all: by the API such a container may always escalate.
func noNewPrivs(sc *v1.SecurityContext) bool {
	if ptr.Deref(sc.AllowPrivilegeEscalation, true) || ptr.Deref(sc.Privileged, false) {
		return false
	}
	return sc.Capabilities == nil || !slices.Contains(sc.Capabilities.Add, "CAP_SYS_ADMIN")
}
