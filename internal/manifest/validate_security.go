package manifest

import (
	"regexp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const maxSysctl = 253

// sysctlName is one or more segments, of which the separators may be dots or slashes.
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
	errs = append(errs, validateProfiles(context.SeccompProfile, context.AppArmorProfile, path)...)
	return append(errs, validateSysctls(context.Sysctls, path.Child("sysctls"))...)
}

func validateSysctls(sysctls []v1.Sysctl, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, s := range sysctls {
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
	errs = append(errs, validateProfiles(context.SeccompProfile, context.AppArmorProfile, path)...)
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

func validateProfiles(seccomp *v1.SeccompProfile, appArmor *v1.AppArmorProfile, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if seccomp != nil {
		at := path.Child("seccompProfile")
		errs = append(errs, oneOf(at.Child("type"), seccomp.Type,
			v1.SeccompProfileTypeLocalhost, v1.SeccompProfileTypeRuntimeDefault, v1.SeccompProfileTypeUnconfined)...)
		if local := seccomp.LocalhostProfile; local != nil {
			errs = append(errs, validateRelative(*local, at.Child("localhostProfile"))...)
		}
		errs = append(errs, validateLocalhost(seccomp.LocalhostProfile, seccomp.Type == v1.SeccompProfileTypeLocalhost, at)...)
	}
	if appArmor != nil {
		at := path.Child("appArmorProfile")
		errs = append(errs, oneOf(at.Child("type"), appArmor.Type,
			v1.AppArmorProfileTypeLocalhost, v1.AppArmorProfileTypeRuntimeDefault, v1.AppArmorProfileTypeUnconfined)...)
		errs = append(errs, validateLocalhost(appArmor.LocalhostProfile, appArmor.Type == v1.AppArmorProfileTypeLocalhost, at)...)
	}
	return errs
}

// validateLocalhost sees to it that a profile is named if, and only if, it is one of the node's.
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
