package podenv

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/downward"
)

// Objects returns the ConfigMaps and Secrets that the pod may read; objects.Reader implements it. Its errors are
// those of package objects.
type Objects interface {
	ConfigMap(name string) (*v1.ConfigMap, error)
	Secret(name string) (*v1.Secret, error)
}

// Input is the input of Of, which does not change it.
type Input struct {
	Pod *v1.Pod
	// Container is a container of the pod, of any kind.
	Container *v1.Container
	Objects   Objects
	Facts     downward.Facts
	// Services are the environment variables of the services that the pod may see.
	Services []criconfig.EnvVar
	// ReadFile reads a file of one of the pod's volumes. A missing file is fs.ErrNotExist.
	ReadFile func(volume, path string) ([]byte, error)
}

// Of returns the container's environment, each name once, in the order of first definitions: services, envFrom, env.
// A later definition of a name replaces the value. A missing optional source defines nothing.
//
// skipped has a message for each source of envFrom with keys that can't be variable names: the text of the kubelet's
// InvalidEnvironmentVariableNames.
//
// On objects.ErrUnknown the caller must retry, even if the object is optional; any other error is for the pod's
// author.
func Of(in Input) (env []criconfig.EnvVar, skipped []string, err error) {
	b := &builder{
		Input: in, values: map[string]string{}, objects: map[object]map[string]string{}, files: map[file]map[string]string{},
	}
	for _, v := range b.Services {
		if err := b.set(v.Name, v.Value); err != nil {
			return nil, nil, err
		}
	}
	if skipped, err = b.addSources(); err != nil {
		return nil, nil, err
	}
	if err := b.addVariables(); err != nil {
		return nil, nil, err
	}
	env = make([]criconfig.EnvVar, 0, len(b.names))
	for _, name := range b.names {
		env = append(env, criconfig.EnvVar{Name: name, Value: b.values[name]})
	}
	return env, skipped, nil
}

// builder builds one environment.
type builder struct {
	Input
	// names are in the order of first definition.
	names  []string
	values map[string]string
	// size is the length of all names and values.
	size int
	// objects and files cache what was read, so that all variables see one version.
	objects map[object]map[string]string
	files   map[file]map[string]string
}

// maxSize is more than Linux passes to any process: three quarters of 8 MiB (execve(2)). Without it a few variables,
// each referring to the previous one twice, would fill the node's memory.
const maxSize = 6 << 20

// set defines or redefines a variable.
func (b *builder) set(name, value string) error {
	old, ok := b.values[name]
	size := b.size + len(value) - len(old)
	if !ok {
		size += len(name)
	}
	if size > maxSize {
		return tooLarge(name)
	}
	if !ok {
		b.names = append(b.names, name)
	}
	b.values[name], b.size = value, size
	return nil
}

func tooLarge(name string) error {
	return fmt.Errorf("environment variable %s: with it the environment has more than the %d bytes that a process can get", name, maxSize)
}

// addSources adds the sources of envFrom.
func (b *builder) addSources() (skipped []string, err error) {
	for _, from := range b.Container.EnvFrom {
		var source object
		var optional *bool
		switch {
		case from.ConfigMapRef != nil:
			source, optional = object{configMap, from.ConfigMapRef.Name}, from.ConfigMapRef.Optional
		case from.SecretRef != nil:
			source, optional = object{secret, from.SecretRef.Name}, from.SecretRef.Optional
		default:
			return nil, errors.New("envFrom names neither a ConfigMap nor a Secret")
		}
		data, err := b.read(source, optional)
		if err != nil {
			return nil, err
		}
		invalid, err := b.addAll(from.Prefix, data)
		if err != nil {
			return nil, err
		}
		if len(invalid) > 0 {
			skipped = append(skipped, fmt.Sprintf(
				"Keys [%s] from the EnvFrom %s %s/%s were skipped since they are considered invalid environment variable names.",
				strings.Join(invalid, ", "), source.kind.camel, b.Pod.Namespace, source.name))
		}
	}
	return skipped, nil
}

// addAll defines a variable for each key, and returns the invalid names.
func (b *builder) addAll(prefix string, data map[string]string) (invalid []string, err error) {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		name := prefix + key
		if len(validation.IsRelaxedEnvVarName(name)) > 0 {
			invalid = append(invalid, name)
			continue
		}
		if err := b.set(name, data[key]); err != nil {
			return nil, err
		}
	}
	return invalid, nil
}

// addVariables adds the container's own variables. Each may refer to earlier ones, and to services.
func (b *builder) addVariables() error {
	for i := range b.Container.Env {
		e := &b.Container.Env[i]
		value, ok, err := b.value(e)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := b.set(e.Name, value); err != nil {
			return err
		}
	}
	return nil
}

// value returns the value of one variable; ok is false if it is optional and its source doesn't exist.
func (b *builder) value(e *v1.EnvVar) (value string, ok bool, err error) {
	if e.Value == "" && e.ValueFrom != nil {
		return b.valueFrom(e.Name, e.ValueFrom)
	}
	if b.size+expandedSize(e.Value, b.values) > maxSize {
		return "", false, tooLarge(e.Name)
	}
	return criconfig.Expand(e.Value, b.values), true, nil
}

// expandedSize returns an upper bound of the length of criconfig.Expand's result.
func expandedSize(text string, values map[string]string) int {
	size := len(text)
	for {
		at := strings.IndexByte(text, '$')
		if at < 0 || at == len(text)-1 {
			return size
		}
		// A $ is followed by ( or starts nothing.
		next := text[at+1]
		text = text[at+2:]
		if next != '(' {
			continue
		}
		name, rest, closed := strings.Cut(text, ")")
		if !closed { // no later one is closed either
			return size
		}
		if value, ok := values[name]; ok {
			size += len(value) - len("$()") - len(name)
		}
		text = rest
	}
}
