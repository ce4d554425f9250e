package validate

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// validateContainers checks the init containers and the others. volumes are the names of the pod's volumes.
func validateContainers(spec *v1.PodSpec, volumes volumeNames) field.ErrorList {
	var errs field.ErrorList
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(field.NewPath("spec", "containers"), "a pod needs at least one"))
	}
	names := map[string]bool{}
	// Ports of init containers don't conflict with those of the others: most have ended when these start.
	together := hostPorts{}
	eachContainer(spec, func(c *v1.Container, at *field.Path, init bool) {
		switch {
		case c.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case names[c.Name]:
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		default:
			errs = append(errs, invalid(at.Child("name"), c.Name, validation.IsDNS1123Label(c.Name))...)
		}
		names[c.Name] = true
		taken := together
		if init {
			taken = hostPorts{}
		}
		once := init && !isSidecar(c)
		errs = append(errs, validateContainer(c, spec, volumes, at)...)
		errs = append(errs, validatePorts(c.Ports, spec.HostNetwork && !init, taken, at.Child("ports"))...)
		errs = append(errs, validateRestart(c, at)...)
		errs = append(errs, validateResizePolicy(c.ResizePolicy, spec.RestartPolicy, once, at.Child("resizePolicy"))...)
		errs = append(errs, validateProbes(c, once, at)...)
		errs = append(errs, validateLifecycle(c, once, spec, at)...)
	})
	return errs
}

// isSidecar reports whether an init container is a sidecar, which runs beside the others.
func isSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

func validateContainer(c *v1.Container, spec *v1.PodSpec, volumes volumeNames, path *field.Path) field.ErrorList {
	errs := validateImage(c.Image, path.Child("image"))
	errs = append(errs, oneOf(path.Child("imagePullPolicy"), c.ImagePullPolicy, v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)...)
	errs = append(errs, oneOf(path.Child("terminationMessagePolicy"), c.TerminationMessagePolicy,
		v1.TerminationMessageReadFile, v1.TerminationMessageFallbackToLogsOnError)...)
	errs = append(errs, validateEnv(c.Env, volumes, path.Child("env"))...)
	errs = append(errs, validateEnvFrom(c.EnvFrom, path.Child("envFrom"))...)
	errs = append(errs, validateMounts(c, volumes, path.Child("volumeMounts"))...)
	errs = append(errs, validateResources(&c.Resources, validateResourceName, path.Child("resources"))...)
	return append(errs, validateContainerSecurity(c.SecurityContext, ptr.Deref(spec.HostUsers, true), path.Child("securityContext"))...)
}

func validateImage(image string, at *field.Path) field.ErrorList {
	switch {
	case strings.TrimSpace(image) == "":
		return field.ErrorList{field.Required(at, "")}
	case strings.TrimSpace(image) != image:
		return field.ErrorList{field.Invalid(at, image, "must not begin or end with white space")}
	}
	return nil
}

// hostPorts are the ports of the node that are taken, as "protocol/address/port".
type hostPorts map[string]bool

func validatePorts(ports []v1.ContainerPort, hostNetwork bool, taken hostPorts, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i, p := range ports {
		at := path.Index(i)
		if p.Name != "" {
			if messages := validation.IsValidPortName(p.Name); len(messages) > 0 {
				errs = append(errs, invalid(at.Child("name"), p.Name, messages)...)
			} else if names[p.Name] {
				errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
			}
			names[p.Name] = true
		}
		errs = append(errs, invalid(at.Child("containerPort"), p.ContainerPort, validation.IsValidPortNum(int(p.ContainerPort)))...)
		errs = append(errs, oneOf(at.Child("protocol"), p.Protocol, v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP)...)
		if p.HostPort == 0 {
			continue
		}
		errs = append(errs, invalid(at.Child("hostPort"), p.HostPort, validation.IsValidPortNum(int(p.HostPort)))...)
		if hostNetwork && p.HostPort != p.ContainerPort {
			errs = append(errs, field.Invalid(at.Child("hostPort"), p.HostPort, "must be the containerPort in a pod with hostNetwork"))
		}
		key := fmt.Sprintf("%s/%s/%d", p.Protocol, p.HostIP, p.HostPort)
		if taken[key] {
			errs = append(errs, field.Duplicate(at.Child("hostPort"), key))
		}
		taken[key] = true
	}
	return errs
}

func validateMounts(c *v1.Container, volumes volumeNames, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	paths := map[string]bool{}
	for i, m := range c.VolumeMounts {
		at := path.Index(i)
		switch {
		case m.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case !volumes.has(m.Name):
			errs = append(errs, field.NotFound(at.Child("name"), m.Name))
		}
		switch {
		case m.MountPath == "":
			errs = append(errs, field.Required(at.Child("mountPath"), ""))
		case paths[m.MountPath]:
			errs = append(errs, field.Duplicate(at.Child("mountPath"), m.MountPath))
		}
		paths[m.MountPath] = true
		if m.SubPath != "" {
			errs = append(errs, validateRelative(m.SubPath, at.Child("subPath"))...)
		}
		if m.SubPathExpr != "" {
			errs = append(errs, validateRelative(m.SubPathExpr, at.Child("subPathExpr"))...)
			if m.SubPath != "" {
				errs = append(errs, field.Invalid(at.Child("subPathExpr"), m.SubPathExpr, "subPath and subPathExpr exclude each other"))
			}
		}
		errs = append(errs, validateMountModes(c, &m, at)...)
	}
	return errs
}

// validateMountModes checks mount propagation, and recursive read-only mounts.
func validateMountModes(c *v1.Container, m *v1.VolumeMount, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	propagation := v1.MountPropagationNone
	if m.MountPropagation != nil {
		propagation = *m.MountPropagation
	}
	errs = append(errs, oneOf(at.Child("mountPropagation"), propagation,
		v1.MountPropagationNone, v1.MountPropagationHostToContainer, v1.MountPropagationBidirectional)...)
	privileged := c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
	if propagation == v1.MountPropagationBidirectional && !privileged {
		errs = append(errs, field.Forbidden(at.Child("mountPropagation"), "only a privileged container can have Bidirectional"))
	}
	if m.RecursiveReadOnly == nil {
		return errs
	}
	path := at.Child("recursiveReadOnly")
	errs = append(errs, oneOf(path, *m.RecursiveReadOnly,
		v1.RecursiveReadOnlyDisabled, v1.RecursiveReadOnlyIfPossible, v1.RecursiveReadOnlyEnabled)...)
	if *m.RecursiveReadOnly != v1.RecursiveReadOnlyDisabled && (!m.ReadOnly || propagation != v1.MountPropagationNone) {
		errs = append(errs, field.Forbidden(path, "needs readOnly, and mountPropagation None"))
	}
	return errs
}

// validateRelative refuses a path that could lead out of its directory.
func validateRelative(p string, at *field.Path) field.ErrorList {
	if strings.HasPrefix(p, "/") {
		return field.ErrorList{field.Invalid(at, p, "must be a relative path")}
	}
	return validateNoBacksteps(p, at)
}

func validateNoBacksteps(p string, at *field.Path) field.ErrorList {
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return field.ErrorList{field.Invalid(at, p, "must not contain '..'")}
		}
	}
	return nil
}
