package validate

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The fields of a pod that its containers can get: in variables, in files, or in both.
var (
	envFields = []string{
		"metadata.name", "metadata.namespace", "metadata.uid",
		"spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	fileFields = []string{"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations"}
)

// resourceFields are the valid names of a resourceFieldRef, besides hugepages with their prefix.
var resourceFields = []string{
	"limits.cpu", "limits.memory", "limits.ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage",
}

// The valid divisors of a resource.
var (
	cpuDivisors  = []string{"1m", "1"}
	byteDivisors = []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
)

func validateEnv(env []v1.EnvVar, volumes volumeNames, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, e := range env {
		at := path.Index(i)
		if e.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		} else {
			errs = append(errs, invalid(at.Child("name"), e.Name, validation.IsRelaxedEnvVarName(e.Name))...)
		}
		if e.ValueFrom == nil {
			continue
		}
		if e.Value != "" {
			// The value isn't quoted: it may be a password.
			errs = append(errs, field.Forbidden(at.Child("valueFrom"), "value and valueFrom exclude each other"))
		}
		errs = append(errs, validateValueFrom(e.ValueFrom, volumes, at.Child("valueFrom"))...)
	}
	return errs
}

func validateValueFrom(from *v1.EnvVarSource, volumes volumeNames, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	sources := 0
	if ref := from.FieldRef; ref != nil {
		sources++
		errs = append(errs, validateFieldRef(ref, envFields, path.Child("fieldRef"))...)
	}
	if ref := from.ResourceFieldRef; ref != nil {
		sources++
		errs = append(errs, validateResourceFieldRef(ref, path.Child("resourceFieldRef"))...)
	}
	if ref := from.ConfigMapKeyRef; ref != nil {
		sources++
		errs = append(errs, validateKeyRef(ref.Name, ref.Key, path.Child("configMapKeyRef"))...)
	}
	if ref := from.SecretKeyRef; ref != nil {
		sources++
		errs = append(errs, validateKeyRef(ref.Name, ref.Key, path.Child("secretKeyRef"))...)
	}
	if ref := from.FileKeyRef; ref != nil {
		sources++
		at := path.Child("fileKeyRef")
		errs = append(errs, invalid(at.Child("key"), ref.Key, validation.IsRelaxedEnvVarName(ref.Key))...)
		errs = append(errs, required(at.Child("path"), ref.Path)...)
		errs = append(errs, validateNoBacksteps(ref.Path, at.Child("path"))...)
		switch volume, ok := volumes[ref.VolumeName]; {
		case !ok:
			errs = append(errs, field.NotFound(at.Child("volumeName"), ref.VolumeName))
		case volume.EmptyDir == nil:
			errs = append(errs, field.Invalid(at.Child("volumeName"), ref.VolumeName, "must be an emptyDir"))
		}
	}
	if sources != 1 {
		errs = append(errs, field.Invalid(path, "", "must have exactly one source"))
	}
	return errs
}

func validateKeyRef(name, key string, path *field.Path) field.ErrorList {
	errs := validateObjectName(name, false, path.Child("name"))
	if key == "" {
		return append(errs, field.Required(path.Child("key"), ""))
	}
	return append(errs, invalid(path.Child("key"), key, validation.IsConfigMapKey(key))...)
}

// validateFieldRef checks a reference to one of the given fields, or to one label or annotation.
func validateFieldRef(ref *v1.ObjectFieldSelector, fields []string, path *field.Path) field.ErrorList {
	errs := oneOf(path.Child("apiVersion"), ref.APIVersion, "v1")
	at := path.Child("fieldPath")
	name, ok := subscript(ref.FieldPath, "metadata.annotations")
	if ok {
		name = strings.ToLower(name)
	} else {
		name, ok = subscript(ref.FieldPath, "metadata.labels")
	}
	switch {
	case ref.FieldPath == "":
		errs = append(errs, field.Required(at, ""))
	case ok:
		errs = append(errs, invalid(at, ref.FieldPath, validation.IsQualifiedName(name))...)
	default:
		errs = append(errs, oneOf(at, ref.FieldPath, fields...)...)
	}
	return errs
}

// subscript returns the key in a path such as metadata.labels['key'].
func subscript(path, of string) (string, bool) {
	rest, ok := strings.CutPrefix(path, of+"['")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, "']")
}

func validateResourceFieldRef(ref *v1.ResourceFieldSelector, path *field.Path) field.ErrorList {
	at := path.Child("resource")
	if ref.Resource == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	if !strings.HasPrefix(ref.Resource, "limits.hugepages-") && !strings.HasPrefix(ref.Resource, "requests.hugepages-") {
		errs = oneOf(at, ref.Resource, resourceFields...)
	}
	if ref.Divisor.IsZero() {
		return errs
	}
	divisors := byteDivisors
	if strings.HasSuffix(ref.Resource, ".cpu") {
		divisors = cpuDivisors
	}
	return append(errs, oneOf(path.Child("divisor"), ref.Divisor.String(), divisors...)...)
}

// validateObjectName checks the name of a ConfigMap or Secret, or a prefix of one.
func validateObjectName(name string, prefix bool, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return invalid(at, name, apivalidation.NameIsDNSSubdomain(name, prefix))
}

func validateEnvFrom(sources []v1.EnvFromSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, from := range sources {
		at := path.Index(i)
		if from.Prefix != "" {
			errs = append(errs, invalid(at.Child("prefix"), from.Prefix, validation.IsRelaxedEnvVarName(from.Prefix))...)
		}
		if ref := from.ConfigMapRef; ref != nil {
			errs = append(errs, validateObjectName(ref.Name, true, at.Child("configMapRef", "name"))...)
		}
		if ref := from.SecretRef; ref != nil {
			errs = append(errs, validateObjectName(ref.Name, true, at.Child("secretRef", "name"))...)
		}
		if (from.ConfigMapRef == nil) == (from.SecretRef == nil) {
			errs = append(errs, field.Invalid(at, "", "must have exactly one source"))
		}
	}
	return errs
}
