package validate

import (
	"regexp"
	"strings"
	"unicode"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The bounds of the names in windowsOptions.
const (
	maxCredentialSpec = 64 << 10
	maxWindowsUser    = 104
	maxWindowsDomain  = 255
)

var (
	netBIOSDomain = regexp.MustCompile(`^[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}$`)
	dnsDomain     = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
)

// validateOS checks that a pod that names its operating system has no fields of another one.
func validateOS(spec *v1.PodSpec, path *field.Path) field.ErrorList {
	if spec.OS == nil {
		return nil
	}
	var errs field.ErrorList
	refuse := func(set bool, at *field.Path) {
		if set {
			errs = append(errs, field.Forbidden(at, "a pod of this operating system can't have it"))
		}
	}
	context := path.Child("securityContext")
	switch spec.OS.Name {
	case v1.Linux:
		refuse(spec.SecurityContext.WindowsOptions != nil, context.Child("windowsOptions"))
		eachContainer(spec, func(c *v1.Container, at *field.Path, _ bool) {
			refuse(c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil, at.Child("securityContext", "windowsOptions"))
		})
	case v1.Windows:
		refuseLinuxFields(spec, path, refuse)
	default:
		errs = oneOf(path.Child("os", "name"), spec.OS.Name, v1.Linux, v1.Windows)
	}
	return errs
}

func refuseLinuxFields(spec *v1.PodSpec, path *field.Path, refuse func(set bool, at *field.Path)) {
	s, at := spec.SecurityContext, path.Child("securityContext")
	refuse(spec.HostUsers != nil, path.Child("hostUsers"))
	refuse(spec.HostPID, path.Child("hostPID"))
	refuse(spec.HostIPC, path.Child("hostIPC"))
	refuse(spec.ShareProcessNamespace != nil, path.Child("shareProcessNamespace"))
	refuse(spec.Resources != nil, path.Child("resources"))
	refuse(s.AppArmorProfile != nil, at.Child("appArmorProfile"))
	refuse(s.SELinuxOptions != nil, at.Child("seLinuxOptions"))
	refuse(s.SeccompProfile != nil, at.Child("seccompProfile"))
	refuse(s.FSGroup != nil, at.Child("fsGroup"))
	refuse(s.FSGroupChangePolicy != nil, at.Child("fsGroupChangePolicy"))
	refuse(len(s.Sysctls) > 0, at.Child("sysctls"))
	refuse(s.RunAsUser != nil, at.Child("runAsUser"))
	refuse(s.RunAsGroup != nil, at.Child("runAsGroup"))
	refuse(s.SupplementalGroups != nil, at.Child("supplementalGroups"))
	refuse(s.SupplementalGroupsPolicy != nil, at.Child("supplementalGroupsPolicy"))
	refuse(s.SELinuxChangePolicy != nil, at.Child("seLinuxChangePolicy"))
	eachContainer(spec, func(c *v1.Container, at *field.Path, _ bool) {
		s, at := c.SecurityContext, at.Child("securityContext")
		if s == nil {
			return
		}
		refuse(s.AppArmorProfile != nil, at.Child("appArmorProfile"))
		refuse(s.SELinuxOptions != nil, at.Child("seLinuxOptions"))
		refuse(s.SeccompProfile != nil, at.Child("seccompProfile"))
		refuse(s.Capabilities != nil, at.Child("capabilities"))
		refuse(s.ReadOnlyRootFilesystem != nil, at.Child("readOnlyRootFilesystem"))
		refuse(s.Privileged != nil, at.Child("privileged"))
		refuse(s.AllowPrivilegeEscalation != nil, at.Child("allowPrivilegeEscalation"))
		refuse(s.ProcMount != nil, at.Child("procMount"))
		refuse(s.RunAsUser != nil, at.Child("runAsUser"))
		refuse(s.RunAsGroup != nil, at.Child("runAsGroup"))
	})
}

func validateWindowsOptions(o *v1.WindowsSecurityContextOptions, path *field.Path) field.ErrorList {
	if o == nil {
		return nil
	}
	var errs field.ErrorList
	if name := o.GMSACredentialSpecName; name != nil {
		errs = append(errs, invalid(path.Child("gmsaCredentialSpecName"), *name, validation.IsDNS1123Subdomain(*name))...)
	}
	if spec := o.GMSACredentialSpec; spec != nil {
		at := path.Child("gmsaCredentialSpec")
		errs = append(errs, required(at, *spec)...)
		if len(*spec) > maxCredentialSpec {
			errs = append(errs, field.TooLong(at, "", maxCredentialSpec))
		}
	}
	if name := o.RunAsUserName; name != nil {
		errs = append(errs, invalid(path.Child("runAsUserName"), *name, checkWindowsUser(*name))...)
	}
	return errs
}

// checkWindowsUser returns what is wrong with a user's name, which may have a domain and a backslash before it.
func checkWindowsUser(name string) []string {
	domain, user, qualified := strings.Cut(name, `\`)
	if !qualified {
		user = name
	}
	switch {
	case strings.ContainsFunc(name, func(c rune) bool { return c < unicode.MaxASCII && unicode.IsControl(c) || c == unicode.MaxASCII }):
		return []string{"must not have control characters"}
	case qualified && (len(domain) > maxWindowsDomain || !netBIOSDomain.MatchString(domain) && !dnsDomain.MatchString(domain)):
		return []string{"the domain before the backslash must be a NetBIOS or DNS name"}
	case user == "" || len(user) > maxWindowsUser || strings.Trim(user, ". ") == "" || strings.ContainsAny(user, `"/\[]:;|=,+*?<>@`):
		return []string{`the user's name must have 1 to 104 characters, not only dots and spaces, and none of "/\[]:;|=,+*?<>@`}
	}
	return nil
}

// validateHostProcess checks that either all containers of a pod are processes of a Windows host, or none is.
func validateHostProcess(spec *v1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	inherited := hostProcess(spec.SecurityContext.WindowsOptions)
	all, some := true, false
	eachContainer(spec, func(c *v1.Container, at *field.Path, _ bool) {
		var own *bool
		if c.SecurityContext != nil {
			own = hostProcess(c.SecurityContext.WindowsOptions)
		}
		if own != nil && inherited != nil && *own != *inherited {
			errs = append(errs, field.Invalid(at.Child("securityContext", "windowsOptions", "hostProcess"), *own, "must be the pod's"))
		}
		if own == nil {
			own = inherited
		}
		is := own != nil && *own
		all, some = all && is, some || is
	})
	if some && !all {
		errs = append(errs, field.Invalid(path, "", "if one container has hostProcess, all containers must have it"))
	}
	if some && !spec.HostNetwork {
		errs = append(errs, field.Invalid(path.Child("hostNetwork"), false, "must be true in a pod with hostProcess"))
	}
	return errs
}

func hostProcess(o *v1.WindowsSecurityContextOptions) *bool {
	if o == nil {
		return nil
	}
	return o.HostProcess
}
