package validate

import (
	"regexp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/node/util/sysctl"
)

const maxSysctl = 253

// sysctlName matches one or more segments, separated by dots or slashes.
var sysctlName = regexp.MustCompile(`^[a-z0-9]([-_a-z0-9]*[a-z0-9])?([./][a-z0-9]([-_a-z0-9]*[a-z0-9])?)*$`)

func validatePodSecurity(spec *v1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.HostPID && spec.ShareProcessNamespace != nil && *spec.ShareProcessNamespace {
		errs = append(errs, field.Invalid(path.Child("shareProcessNamespace"), true, "hostPID and shareProcessNamespace exclude each other"))
	}
	if spec.HostUsers != nil && !*spec.HostUsers {
		for _, host := range []struct {
			field string
			set   bool
		}{{"hostPID", spec.HostPID}, {"hostIPC", spec.HostIPC}, {"hostNetwork", spec.HostNetwork}} {
			if host.set {
				errs = append(errs, field.Forbidden(path.Child(host.field), "a pod with a user namespace of its own (hostUsers: false) can't have it"))
			}
		}
	}
	context := spec.SecurityContext
	path = path.Child("securityContext")
	errs = append(errs, validateUser(context.RunAsUser, path.Child("runAsUser"))...)
	errs = append(errs, validateGroup(context.RunAsGroup, path.Child("runAsGroup"))...)
	errs = append(errs, validateGroup(context.FSGroup, path.Child("fsGroup"))...)
	for i := range context.SupplementalGroups {
		errs = append(errs, validateGroup(&context.SupplementalGroups[i], path.Child("supplementalGroups").Index(i))...)
	}
	if p := context.SupplementalGroupsPolicy; p != nil {
		errs = append(errs, oneOf(path.Child("supplementalGroupsPolicy"), *p, v1.SupplementalGroupsPolicyMerge, v1.SupplementalGroupsPolicyStrict)...)
	}
	if p := context.FSGroupChangePolicy; p != nil {
		errs = append(errs, oneOf(path.Child("fsGroupChangePolicy"), *p, v1.FSGroupChangeAlways, v1.FSGroupChangeOnRootMismatch)...)
	}
	if p := context.SELinuxChangePolicy; p != nil {
		errs = append(errs, oneOf(path.Child("seLinuxChangePolicy"), *p, v1.SELinuxChangePolicyRecursive, v1.SELinuxChangePolicyMountOption)...)
	}
	errs = append(errs, validateSeccompProfile(context.SeccompProfile, path.Child("seccompProfile"))...)
	errs = append(errs, validateAppArmorProfile(context.AppArmorProfile, path.Child("appArmorProfile"))...)
	errs = append(errs, validateWindowsOptions(context.WindowsOptions, path.Child("windowsOptions"))...)
	return append(errs, validateSysctls(spec, path.Child("sysctls"))...)
}

func validateSysctls(spec *v1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, s := range spec.SecurityContext.Sysctls {
		at := path.Index(i).Child("name")
		switch {
		case s.Name == "":
			errs = append(errs, field.Required(at, ""))
		case len(s.Name) > maxSysctl || !sysctlName.MatchString(s.Name):
			errs = append(errs, field.Invalid(at, s.Name, "must be a sysctl's name, such as net.core.somaxconn"))
		case seen[s.Name]:
			errs = append(errs, field.Duplicate(at, s.Name))
		}
		seen[s.Name] = true
		switch namespace, _, _ := sysctl.GetNamespace(s.Name); {
		case namespace == sysctl.NetNamespace && spec.HostNetwork, namespace == sysctl.IPCNamespace && spec.HostIPC:
			errs = append(errs, field.Invalid(at, s.Name, "is the node's in a pod with the node's namespace"))
		}
	}
	return errs
}

func validateContainerSecurity(context *v1.SecurityContext, hostUsers bool, path *field.Path) field.ErrorList {
	if context == nil {
		return nil
	}
	errs := validateUser(context.RunAsUser, path.Child("runAsUser"))
	errs = append(errs, validateGroup(context.RunAsGroup, path.Child("runAsGroup"))...)
	if context.ProcMount != nil {
		at := path.Child("procMount")
		errs = append(errs, oneOf(at, *context.ProcMount, v1.DefaultProcMount, v1.UnmaskedProcMount)...)
		if *context.ProcMount == v1.UnmaskedProcMount && hostUsers {
			errs = append(errs, field.Invalid(at, *context.ProcMount, "needs a user namespace of its own (hostUsers: false)"))
		}
	}
	errs = append(errs, validateSeccompProfile(context.SeccompProfile, path.Child("seccompProfile"))...)
	errs = append(errs, validateAppArmorProfile(context.AppArmorProfile, path.Child("appArmorProfile"))...)
	errs = append(errs, validateWindowsOptions(context.WindowsOptions, path.Child("windowsOptions"))...)
	if context.AllowPrivilegeEscalation == nil || *context.AllowPrivilegeEscalation {
		return errs
	}
	at := path.Child("allowPrivilegeEscalation")
	if context.Privileged != nil && *context.Privileged {
		errs = append(errs, field.Invalid(at, false, "a privileged container can't be denied privilege escalation"))
	}
	if c := context.Capabilities; c != nil && slices.ContainsFunc(c.Add, isSysAdmin) {
		errs = append(errs, field.Invalid(at, false, "a container with CAP_SYS_ADMIN can't be denied privilege escalation"))
	}
	return errs
}

func isSysAdmin(c v1.Capability) bool { return c == "CAP_SYS_ADMIN" || c == "SYS_ADMIN" }

func validateSeccompProfile(p *v1.SeccompProfile, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := oneOf(path.Child("type"), p.Type,
		v1.SeccompProfileTypeLocalhost, v1.SeccompProfileTypeRuntimeDefault, v1.SeccompProfileTypeUnconfined)
	if p.LocalhostProfile != nil {
		errs = append(errs, validateRelative(*p.LocalhostProfile, path.Child("localhostProfile"))...)
	}
	return append(errs, validateLocalhost(p.LocalhostProfile, p.Type == v1.SeccompProfileTypeLocalhost, path)...)
}

// validateLocalhost checks that a profile is named if, and only if, it is one of the node's.
func validateLocalhost(profile *string, wanted bool, path *field.Path) field.ErrorList {
	at := path.Child("localhostProfile")
	switch {
	case wanted && (profile == nil || *profile == ""):
		return field.ErrorList{field.Required(at, "type Localhost needs it")}
	case !wanted && profile != nil:
		return field.ErrorList{field.Forbidden(at, "only type Localhost has it")}
	}
	return nil
}

func validateUser(id *int64, at *field.Path) field.ErrorList {
	if id == nil {
		return nil
	}
	return invalid(at, *id, validation.IsValidUserID(*id))
}

func validateGroup(id *int64, at *field.Path) field.ErrorList {
	if id == nil {
		return nil
	}
	return invalid(at, *id, validation.IsValidGroupID(*id))
}
