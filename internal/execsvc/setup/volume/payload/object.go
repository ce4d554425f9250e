package payload

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/objects"
)

// ConfigMap returns the files of a configMap volume. Without items, data and binaryData are all files, by key. If
// both have a key, binaryData counts, but data does if an item names the key.
func ConfigMap(src *v1.ConfigMapVolumeSource, get Objects) (map[string]File, error) {
	s := newSet(src.DefaultMode)
	if err := s.addConfigMap(src.Name, src.Items, ptr.Deref(src.Optional, false), get); err != nil {
		return nil, err
	}
	return s.files, nil
}

// Secret returns the files of a secret volume.
func Secret(src *v1.SecretVolumeSource, get Objects) (map[string]File, error) {
	s := newSet(src.DefaultMode)
	if err := s.addSecret(src.SecretName, src.Items, ptr.Deref(src.Optional, false), get); err != nil {
		return nil, err
	}
	return s.files, nil
}

func (s set) addConfigMap(name string, items []v1.KeyToPath, optional bool, get Objects) error {
	c, err := get.ConfigMap(name)
	if errors.Is(err, objects.ErrMissing) {
		if optional {
			return nil
		}
		return apierrors.NewNotFound(v1.Resource("configmap"), name)
	}
	if err != nil {
		return err
	}
	data := make(map[string][]byte, len(c.Data)+len(c.BinaryData))
	maps.Copy(data, c.BinaryData)
	for key, text := range c.Data {
		if _, both := data[key]; !both || len(items) > 0 {
			data[key] = []byte(text)
		}
	}
	return s.addKeys(fmt.Sprintf("configmap %q", name), data, items, optional, "config")
}

func (s set) addSecret(name string, items []v1.KeyToPath, optional bool, get Objects) error {
	secret, err := get.Secret(name)
	if errors.Is(err, objects.ErrMissing) {
		if optional {
			return nil
		}
		return apierrors.NewNotFound(v1.Resource("secret"), name)
	}
	if err != nil {
		return err
	}
	return s.addKeys(fmt.Sprintf("secret %q", name), secret.Data, items, optional, "secret")
}

// addKeys adds the keys of the items, in their order, or all keys. object and what are for messages: the object, and
// the kind of its keys.
func (s set) addKeys(object string, data map[string][]byte, items []v1.KeyToPath, optional bool, what string) error {
	if len(items) == 0 {
		for _, key := range slices.Sorted(maps.Keys(data)) {
			items = append(items, v1.KeyToPath{Key: key, Path: key})
		}
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok {
			if optional {
				continue
			}
			return fmt.Errorf("%s references non-existent %s key: %s", object, what, item.Key)
		}
		if err := s.add(item.Path, value, item.Mode); err != nil {
			return fmt.Errorf("%s: %w", object, err)
		}
	}
	return nil
}
