package volume

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/volume/subpath"
	"github.com/podstream/podstream/internal/failpoint"
)

// Mounts are the volumes that a container sees, in the order of its volumeMounts. It makes what subPaths lead to and looks at hostPaths,
// so it is called before each start of the container. env has the container's environment, which a subPathExpr names.
func (m *Manager) Mounts(ctx context.Context, pod *v1.Pod, c *v1.Container, env map[string]string) ([]criconfig.Mount, error) {
	if err := criconfig.CheckUID(pod.UID); err != nil {
		return nil, err
	}
	if err := checkName(c.Name); err != nil {
		return nil, fmt.Errorf("container: %w", err)
	}
	var mounts []criconfig.Mount
	for i := range c.VolumeMounts {
		target := filepath.Join(m.podDir(pod.UID), subPathsDir, c.VolumeMounts[i].Name, c.Name, strconv.Itoa(i))
		mounted, err := m.mount(ctx, pod, &c.VolumeMounts[i], env, target)
		if err != nil {
			return nil, fmt.Errorf("volumeMounts[%d] (%s): %w", i, c.VolumeMounts[i].Name, err)
		}
		mounts = append(mounts, mounted)
	}
	return mounts, nil
}

// mount is what the container sees of one volume. target is where a part of it is bound.
func (m *Manager) mount(
	ctx context.Context, pod *v1.Pod, vm *v1.VolumeMount, env map[string]string, target string,
) (criconfig.Mount, error) {
	spec, err := specOf(pod, vm.Name)
	if err != nil {
		return criconfig.Mount{}, err
	}
	plugin, v, err := m.volume(pod, spec)
	if err != nil {
		return criconfig.Mount{}, err
	}
	if len(vm.BindMountOptions) > 0 {
		return criconfig.Mount{}, errors.New("bindMountOptions isn't supported yet")
	}
	recursive, err := m.recursivelyReadOnly(vm)
	if err != nil {
		return criconfig.Mount{}, err
	}
	sub, err := subPathOf(vm, env)
	if err != nil {
		return criconfig.Mount{}, err
	}
	source := plugin.Source(v)
	mounted := criconfig.Mount{
		HostPath: source.Path, ContainerPath: vm.MountPath,
		ReadOnly: vm.ReadOnly || source.ReadOnly, RecursiveReadOnly: recursive, SELinuxRelabel: source.Own,
	}
	if !filepath.IsAbs(mounted.ContainerPath) {
		mounted.ContainerPath = "/" + mounted.ContainerPath
	}
	if vm.MountPropagation != nil {
		mounted.Propagation = *vm.MountPropagation
	}
	if plugin == m.hostPaths {
		// It may have gone since the pod began. A runtime would make a directory of it.
		if err := setUpHostPath(spec.HostPath); err != nil {
			return criconfig.Mount{}, err
		}
	}
	switch {
	case source.Image != "":
		mounted.Image = &criconfig.ImageMount{Ref: source.Image, SubPath: sub}
	case sub != "":
		mounted.HostPath, err = subpath.Prepare(ctx, subpath.Request{
			Root: source.Path, SubPath: sub, Target: target, Mounter: m.mounter,
			// Where the runtime gives a label it has to write; the container can't all the same.
			ReadOnly: mounted.ReadOnly && !mounted.SELinuxRelabel,
		})
		if err != nil {
			return criconfig.Mount{}, fmt.Errorf("prepare the subPath: %w", err)
		}
		failpoint.Reached(failpoint.SubPathBound)
	}
	return mounted, nil
}

// specOf is the pod's volume of that name.
func specOf(pod *v1.Pod, name string) (*v1.Volume, error) {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return &pod.Spec.Volumes[i], nil
		}
	}
	return nil, errors.New("the pod has no volume of this name")
}

// recursivelyReadOnly tells whether what is mounted below the volume is read-only with it.
func (m *Manager) recursivelyReadOnly(vm *v1.VolumeMount) (bool, error) {
	if vm.RecursiveReadOnly == nil || *vm.RecursiveReadOnly == v1.RecursiveReadOnlyDisabled {
		return false, nil
	}
	mode := *vm.RecursiveReadOnly
	if !vm.ReadOnly {
		return false, fmt.Errorf("recursiveReadOnly: %s needs a mount that is readOnly", mode)
	}
	if vm.MountPropagation != nil && *vm.MountPropagation != v1.MountPropagationNone {
		return false, fmt.Errorf("recursiveReadOnly: %s doesn't go with mountPropagation: %s", mode, *vm.MountPropagation)
	}
	switch mode {
	case v1.RecursiveReadOnlyIfPossible:
		return m.recursiveReadOnly, nil
	case v1.RecursiveReadOnlyEnabled:
		if !m.recursiveReadOnly {
			return false, errors.New("recursiveReadOnly: Enabled isn't supported by the runtime")
		}
		return true, nil
	default:
		return false, fmt.Errorf("recursiveReadOnly: %q isn't known", mode)
	}
}

// subPathOf is the part of the volume that the container sees, relative and clean; empty for all of it.
func subPathOf(vm *v1.VolumeMount, env map[string]string) (string, error) {
	field, sub := "subPath", vm.SubPath
	if vm.SubPathExpr != "" {
		var err error
		field = "subPathExpr"
		if sub, err = expand(vm.SubPathExpr, env); err != nil {
			return "", fmt.Errorf("subPathExpr: %w", err)
		}
	}
	switch {
	case sub == "":
		return "", nil
	case path.IsAbs(sub):
		return "", fmt.Errorf("%s %q must not be an absolute path", field, sub)
	case slices.Contains(strings.Split(sub, "/"), ".."):
		return "", fmt.Errorf("%s %q must not contain \"..\"", field, sub)
	}
	if sub = path.Clean(sub); sub == "." {
		return "", nil
	}
	return sub, nil
}

// reference is what an expression has beside plain text: $$ for a dollar, $(NAME) for a value. Other dollars are themselves.
var reference = regexp.MustCompile(`\$\$|\$\([^)]*\)`)

// expand is criconfig.Expand, but that a name without a value is an error: no container is to have a directory called $(NAME).
func expand(text string, env map[string]string) (string, error) {
	var missing error
	expanded := reference.ReplaceAllStringFunc(text, func(found string) string {
		if found == "$$" {
			return "$"
		}
		name := found[2 : len(found)-1]
		value, ok := env[name]
		if !ok {
			missing = fmt.Errorf("%s has no value", name)
		}
		return value
	})
	return expanded, missing
}
