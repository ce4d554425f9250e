package podenv

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/downward"
	"github.com/podstream/podstream/internal/execsvc/pod/objects"
)

// kind is a kind of object, in the spellings of the kubelet's messages.
type kind struct{ camel, title, lower string }

var (
	configMap = kind{camel: "configMap", title: "ConfigMap", lower: "configmap"}
	secret    = kind{camel: "secret", title: "Secret", lower: "secret"}
)

// object names a ConfigMap or Secret of the pod's namespace.
type object struct {
	kind kind
	name string
}

// file names a file of one of the pod's volumes.
type file struct{ volume, path string }

// valueFrom returns the value of a reference; ok is false if it is optional and its source doesn't exist.
func (b *builder) valueFrom(name string, from *v1.EnvVarSource) (value string, ok bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = downward.Field(b.Pod, from.FieldRef.FieldPath, b.Facts)
	case from.ResourceFieldRef != nil:
		value, err = downward.Resource(b.Pod, b.Container.Name, from.ResourceFieldRef, b.Facts)
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		return b.objectKey(object{configMap, ref.Name}, ref.Key, ref.Optional)
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		return b.objectKey(object{secret, ref.Name}, ref.Key, ref.Optional)
	case from.FileKeyRef != nil:
		return b.fileKey(from.FileKeyRef)
	default:
		err = errors.New("valueFrom names no source")
	}
	if err != nil {
		return "", false, fmt.Errorf("environment variable %s: %w", name, err)
	}
	return value, true, nil
}

// objectKey returns the value of one key of a ConfigMap or Secret.
func (b *builder) objectKey(o object, key string, optional *bool) (value string, ok bool, err error) {
	data, err := b.read(o, optional)
	if err != nil {
		return "", false, err
	}
	value, ok = data[key]
	if !ok && !isTrue(optional) {
		return "", false, fmt.Errorf("couldn't find key %s in %s %s/%s", key, o.kind.title, b.Pod.Namespace, o.name)
	}
	return value, ok, nil
}

// read returns an object's data: nil if it is optional and doesn't exist.
func (b *builder) read(o object, optional *bool) (map[string]string, error) {
	if data, ok := b.objects[o]; ok {
		return data, nil
	}
	data := map[string]string{}
	var err error
	if o.kind == secret {
		var s *v1.Secret
		if s, err = b.Objects.Secret(o.name); err == nil {
			for key, value := range s.Data {
				data[key] = string(value)
			}
		}
	} else {
		var c *v1.ConfigMap
		if c, err = b.Objects.ConfigMap(o.name); err == nil {
			data = c.Data
		}
	}
	switch {
	case errors.Is(err, objects.ErrMissing) && !isTrue(optional):
		// The API server's wording.
		return nil, fmt.Errorf("%s %q not found", o.kind.lower, o.name)
	case errors.Is(err, objects.ErrMissing):
		return nil, nil
	case err != nil:
		return nil, err
	}
	b.objects[o] = data
	return data, nil
}

// fileKey returns the value of one key of an env file. A key with an empty value exists.
func (b *builder) fileKey(ref *v1.FileKeySelector) (value string, ok bool, err error) {
	data, err := b.readFile(ref)
	if err != nil {
		return "", false, err
	}
	value, ok = data[ref.Key]
	if !ok && !isTrue(ref.Optional) {
		return "", false, fmt.Errorf("environment variable key %q not found in file %q of volume %q", ref.Key, ref.Path, ref.VolumeName)
	}
	return value, ok, nil
}

// readFile returns the variables of an env file: nil if it is optional and doesn't exist.
func (b *builder) readFile(ref *v1.FileKeySelector) (map[string]string, error) {
	f := file{ref.VolumeName, ref.Path}
	if data, ok := b.files[f]; ok {
		return data, nil
	}
	// The API server allows emptyDir only.
	if !slices.ContainsFunc(b.Pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == f.volume && v.EmptyDir != nil }) {
		return nil, fmt.Errorf("cannot find the emptyDir volume %q referenced by FileKeyRef", f.volume)
	}
	text, err := b.ReadFile(f.volume, f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && isTrue(ref.Optional):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("couldn't read env file %q of volume %q: %w", f.path, f.volume, err)
	}
	data, err := parseEnvFile(string(text))
	if err != nil {
		return nil, fmt.Errorf("couldn't parse env file %q of volume %q: %w", f.path, f.volume, err)
	}
	b.files[f] = data
	return data, nil
}

func isTrue(optional *bool) bool { return optional != nil && *optional }
