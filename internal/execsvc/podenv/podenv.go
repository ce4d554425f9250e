package podenv

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/downward"
)

// Objects are the ConfigMaps and Secrets that the pod may read; objects.Reader is one. Errors are those of package objects.
type Objects interface {
	ConfigMap(name string) (*v1.ConfigMap, error)
	Secret(name string) (*v1.Secret, error)
}

// Input is what an environment is made of. Nothing of it is changed.
type Input struct {
	Pod *v1.Pod
	// Container is one of the pod's, of any kind.
	Container *v1.Container
	Objects   Objects
	Facts     downward.Facts
	// Services are the variables of the services that the pod may see.
	Services []criconfig.EnvVar
	// ReadFile reads a file of one of the pod's volumes. A file that isn't there is an fs.ErrNotExist.
	ReadFile func(volume, path string) ([]byte, error)
}

// Of returns the container's environment, each name once, in the order in which names are first defined: services, envFrom, env. A
// later definition of a name replaces the value. An optional source that doesn't exist defines nothing.
//
// Skipped are messages for the pod's author, one for each source of envFrom with keys that can't be names of variables; they are the
// kubelet's InvalidEnvironmentVariableNames.
//
// An objects.ErrUnknown is to be waited for, also where the object is optional; any other error tells the pod's author what is missing.
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

// builder is an environment in the making.
type builder struct {
	Input
	// names are in the order of their first definition.
	names  []string
	values map[string]string
	// size is that of all names and values.
	size int
	// objects and files are those that were read: each is read once, so that all variables see one version of it.
	objects map[object]map[string]string
	files   map[file]map[string]string
}

// maxSize is more than Linux passes to any process: three quarters of 8 MiB (execve(2)). Without it a few variables that each name the
// one before twice would fill the node's memory.
const maxSize = 6 << 20

// set defines a variable, or defines it anew.
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

// addSources takes in what envFrom names.
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

// addAll defines a variable for each key, and returns the names that none can have.
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

// addVariables takes in what the container defines itself. Each variable may refer to those before it, and to services.
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

// value is that of one variable; not ok if it is optional and its source doesn't exist.
func (b *builder) value(e *v1.EnvVar) (value string, ok bool, err error) {
	if e.Value == "" && e.ValueFrom != nil {
		return b.valueFrom(e.Name, e.ValueFrom)
	}
	if b.size+expandedSize(e.Value, b.values) > maxSize {
		return "", false, tooLarge(e.Name)
	}
	return criconfig.Expand(e.Value, b.values), true, nil
}

// expandedSize is the length of what criconfig.Expand makes of the text, or a little more.
func expandedSize(text string, values map[string]string) int {
	size := len(text)
	for {
		at := strings.IndexByte(text, '$')
		if at < 0 || at == len(text)-1 {
			return size
		}
		// The character after a $ is a ( or not the start of anything.
		next := text[at+1]
		text = text[at+2:]
		if next != '(' {
			continue
		}
		name, rest, closed := strings.Cut(text, ")")
		if !closed { // nor is any other
			return size
		}
		if value, ok := values[name]; ok {
			size += len(value) - len("$()") - len(name)
		}
		text = rest
	}
}
