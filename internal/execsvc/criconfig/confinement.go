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

// seccomp is the profile that the container's system calls are filtered by. Nil is unconfined, as the kubelet has it, unless the node's
// default is another.
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

// seccompFile is the profile of that name among the node's.
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

// apparmorProfile is the one that the container asks for, or its pod does. Static pods may still say it by annotation; the API server
// has made fields of those. Nil: none is asked for.
func apparmorProfile(pod *v1.Pod, c *v1.Container, sc *v1.SecurityContext, psc *v1.PodSecurityContext) (*v1.AppArmorProfile, error) {
	if sc.AppArmorProfile != nil {
		return sc.AppArmorProfile, nil
	}
	text, ok := pod.Annotations[v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name]
	if !ok {
		return psc.AppArmorProfile, nil
	}
	name, local := strings.CutPrefix(text, v1.DeprecatedAppArmorBetaProfileNamePrefix)
	switch {
	case local:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}, nil
	case text == v1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}, nil
	case text == v1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}, nil
	default:
		return nil, fmt.Errorf("annotation %s%s: there is no AppArmor profile %q",
			v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix, c.Name, text)
	}
}

// apparmor is nil, the runtime's own choice, where nothing is said.
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

// selinux is the label that is asked for, field by field the container's own or else the pod's. Nil: none is asked for.
func selinux(own, pods *v1.SELinuxOptions) *runtimeapi.SELinuxOption {
	if own == nil && pods == nil {
		return nil
	}
	o, p := ptr.Deref(own, v1.SELinuxOptions{}), ptr.Deref(pods, v1.SELinuxOptions{})
	return &runtimeapi.SELinuxOption{
		User: cmp.Or(o.User, p.User), Role: cmp.Or(o.Role, p.Role), Type: cmp.Or(o.Type, p.Type), Level: cmp.Or(o.Level, p.Level),
	}
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

// noNewPrivs keeps the container's processes from ever having more rights than it starts with. One that has them all already isn't kept
// so: the API has it that such a container may always escalate.
func noNewPrivs(sc *v1.SecurityContext) bool {
	if ptr.Deref(sc.AllowPrivilegeEscalation, true) || ptr.Deref(sc.Privileged, false) {
		return false
	}
	return sc.Capabilities == nil || !slices.Contains(sc.Capabilities.Add, "CAP_SYS_ADMIN")
}
