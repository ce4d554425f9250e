package validate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ObjectMeta checks an adopted object's metadata.
func ObjectMeta(m *metav1.ObjectMeta) field.ErrorList {
	path := field.NewPath("metadata")
	errs := required(path.Child("name"), m.Name)
	if m.Name != "" {
		errs = invalid(path.Child("name"), m.Name, validation.IsDNS1123Subdomain(m.Name))
	}
	if m.Namespace != "" {
		// Only an object of a kind without namespaces has none here.
		errs = append(errs, invalid(path.Child("namespace"), m.Namespace, validation.IsDNS1123Label(m.Namespace))...)
	}
	errs = append(errs, sorted(metavalidation.ValidateLabels(m.Labels, path.Child("labels")))...)
	return append(errs, sorted(apivalidation.ValidateAnnotations(m.Annotations, path.Child("annotations")))...)
}

// ConfigMap checks a ConfigMap's data as the API server does (pkg/apis/core/validation).
func ConfigMap(c *v1.ConfigMap) field.ErrorList {
	data, binary := field.NewPath("data"), field.NewPath("binaryData")
	errs := append(validateDataKeys(c.Data, data), validateDataKeys(c.BinaryData, binary)...)
	total := size(c.Data) + size(c.BinaryData)
	for _, key := range slices.Sorted(maps.Keys(c.BinaryData)) {
		if _, ok := c.Data[key]; ok {
			errs = append(errs, field.Forbidden(binary.Key(key), "data has the same key"))
		}
	}
	return append(errs, validateTotal(total, field.NewPath(""))...)
}

// Secret checks a Secret's data by its type, as the API server does.
func Secret(s *v1.Secret) field.ErrorList {
	data := field.NewPath("data")
	errs := append(validateDataKeys(s.Data, data), validateTotal(size(s.Data), data)...)
	need := func(key string) {
		if _, ok := s.Data[key]; !ok {
			errs = append(errs, field.Required(data.Key(key), fmt.Sprintf("a Secret of type %s has it", s.Type)))
		}
	}
	needJSON := func(key string) {
		need(key)
		if text, ok := s.Data[key]; ok && !json.Valid(text) {
			errs = append(errs, field.Invalid(data.Key(key), field.OmitValueType{}, "must be JSON"))
		}
	}
	switch s.Type {
	case v1.SecretTypeServiceAccountToken:
		if s.Annotations[v1.ServiceAccountNameKey] == "" {
			errs = append(errs, field.Required(field.NewPath("metadata", "annotations"),
				fmt.Sprintf("a Secret of type %s has the annotation %s", s.Type, v1.ServiceAccountNameKey)))
		}
	case v1.SecretTypeDockercfg:
		needJSON(v1.DockerConfigKey)
	case v1.SecretTypeDockerConfigJson:
		needJSON(v1.DockerConfigJsonKey)
	case v1.SecretTypeBasicAuth:
		_, user := s.Data[v1.BasicAuthUsernameKey]
		_, password := s.Data[v1.BasicAuthPasswordKey]
		if !user && !password {
			errs = append(errs, field.Required(data, fmt.Sprintf("a Secret of type %s has a username or a password", s.Type)))
		}
	case v1.SecretTypeSSHAuth:
		need(v1.SSHAuthPrivateKey)
	case v1.SecretTypeTLS:
		need(v1.TLSCertKey)
		need(v1.TLSPrivateKeyKey)
	}
	return errs
}

// validateDataKeys checks the keys of an object's data: each may become a file's name.
func validateDataKeys[V any](data map[string]V, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(data)) {
		errs = append(errs, invalid(path.Key(key), key, validation.IsConfigMapKey(key))...)
	}
	return errs
}

func size[V ~string | ~[]byte](data map[string]V) int {
	total := 0
	for _, value := range data {
		total += len(value)
	}
	return total
}

func validateTotal(total int, path *field.Path) field.ErrorList {
	if total <= v1.MaxSecretSize {
		return nil
	}
	return field.ErrorList{field.TooLong(path, "", v1.MaxSecretSize)}
}
