package manifest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The fields of a pod that can be given to its containers: in variables, in files, or in both.
var (
	envFields = []string{
		"metadata.name", "metadata.namespace", "metadata.uid",
		"spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	fileFields = []string{"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations"}
)

// resourceFields are what a resourceFieldRef may name; hugepages follow by their prefix.
var resourceFields = []string{
	"limits.cpu", "limits.memory", "limits.ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage",
}

func validateEnv(env []v1.EnvVar, volumes map[string]bool, path *field.Path) field.ErrorList {
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

func validateValueFrom(from *v1.EnvVarSource, volumes map[string]bool, path *field.Path) field.ErrorList {
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
		errs = append(errs, required(at.Child("key"), ref.Key)...)
		errs = append(errs, required(at.Child("path"), ref.Path)...)
		errs = append(errs, validateRelative(ref.Path, at.Child("path"))...)
		if !volumes[ref.VolumeName] {
			errs = append(errs, field.NotFound(at.Child("volumeName"), ref.VolumeName))
		}
	}
	if sources != 1 {
		errs = append(errs, field.Invalid(path, "", "must have exactly one source"))
	}
	return errs
}

func validateKeyRef(name, key string, path *field.Path) field.ErrorList {
	errs := required(path.Child("name"), name)
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
	if !ok {
		name, ok = subscript(ref.FieldPath, "metadata.labels")
	}
	switch {
	case ref.FieldPath == "":
		errs = append(errs, field.Required(at, ""))
	case ok:
		errs = append(errs, invalid(at, ref.FieldPath, validation.IsQualifiedName(strings.ToLower(name)))...)
	default:
		errs = append(errs, oneOf(at, ref.FieldPath, fields...)...)
	}
	return errs
}

// subscript is the key in a path such as metadata.labels['key'].
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
	if strings.HasPrefix(ref.Resource, "limits.hugepages-") || strings.HasPrefix(ref.Resource, "requests.hugepages-") {
		return nil
	}
	return oneOf(at, ref.Resource, resourceFields...)
}

func validateEnvFrom(sources []v1.EnvFromSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, from := range sources {
		at := path.Index(i)
		if from.Prefix != "" {
			errs = append(errs, invalid(at.Child("prefix"), from.Prefix, validation.IsRelaxedEnvVarName(from.Prefix))...)
		}
		if ref := from.ConfigMapRef; ref != nil {
			errs = append(errs, required(at.Child("configMapRef", "name"), ref.Name)...)
		}
		if ref := from.SecretRef; ref != nil {
			errs = append(errs, required(at.Child("secretRef", "name"), ref.Name)...)
		}
		if (from.ConfigMapRef == nil) == (from.SecretRef == nil) {
			errs = append(errs, field.Invalid(at, "", "must have exactly one source"))
		}
	}
	return errs
}
