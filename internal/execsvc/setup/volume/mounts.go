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

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/subpath"
	"github.com/podstream/podstream/internal/failpoint"
)

// Mounts returns the volumes that a container sees, in the order of its volumeMounts. It prepares subPaths and checks
// hostPaths, so it is called before each start of the container. env is the container's environment, to which a
// subPathExpr refers.
func (m *Manager) Mounts(ctx context.Context, pod *v1.Pod, c *v1.Container, env map[string]string) ([]criconfig.Mount, error) {
	if err := podmeta.CheckUID(pod.UID); err != nil {
		return nil, err
	}
	if err := checkName(c.Name); err != nil {
		return nil, fmt.Errorf("container: %w", err)
	}
	var mounts []criconfig.Mount
	for i := range c.VolumeMounts {
		target := filepath.Join(m.podDir(pod.UID), subPathsDir, c.VolumeMounts[i].Name, c.Name, strconv.Itoa(i))
		mounted, err := m.mount(ctx, pod, c, &c.VolumeMounts[i], env, target)
		if err != nil {
			return nil, fmt.Errorf("volumeMounts[%d] (%s): %w", i, c.VolumeMounts[i].Name, err)
		}
		guarded := []criconfig.Mount{mounted}
		if spec, err := specOf(pod, c.VolumeMounts[i].Name); err == nil && m.hostPaths.Takes(spec) {
			if guarded, err = m.guard(ctx, pod, c, mounted); err != nil {
				return nil, fmt.Errorf("volumeMounts[%d] (%s): %w", i, c.VolumeMounts[i].Name, err)
			}
		}
		mounts = append(mounts, guarded...)
	}
	return mounts, nil
}

// mount returns the mount of one volume. target is the path at which a subPath is bound.
func (m *Manager) mount(
	ctx context.Context, pod *v1.Pod, c *v1.Container, vm *v1.VolumeMount, env map[string]string, target string,
) (criconfig.Mount, error) {
	spec, err := specOf(pod, vm.Name)
	if err != nil {
		return criconfig.Mount{}, err
	}
	plugin, v, err := m.volume(ctx, pod, spec)
	if err != nil {
		return criconfig.Mount{}, err
	}
	if l, ok := plugin.(Located); ok {
		if err := l.Usable(v); err != nil {
			return criconfig.Mount{}, err
		}
	}
	if len(vm.BindMountOptions) > 0 {
		return criconfig.Mount{}, errors.New("bindMountOptions isn't supported yet")
	}
	recursive, err := m.recursivelyReadOnly(pod, vm)
	if err != nil {
		return criconfig.Mount{}, err
	}
	sub, err := subPathOf(vm, env)
	if err != nil {
		return criconfig.Mount{}, err
	}
	source := plugin.Source(v)
	if source.Device {
		return criconfig.Mount{}, fmt.Errorf("cannot find volume %q to mount into container %q: it is a block device", vm.Name, c.Name)
	}
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
		// The path may have disappeared since the pod started, and a runtime would create a directory there.
		if err := m.nodePaths.setUpHostPath(ctx, pod, spec.HostPath); err != nil {
			return criconfig.Mount{}, err
		}
		if sub != "" {
			if err := m.nodePaths.await(ctx, pod, filepath.Join(source.Path, sub)); err != nil {
				return criconfig.Mount{}, err
			}
		}
	}
	switch {
	case source.Image != "":
		mounted.Image = &criconfig.ImageMount{Given: source.Image, SubPath: sub}
	case sub != "":
		mounted.HostPath, err = m.bindSubPath(ctx, source.Foreign, subpath.Request{
			Root: source.Path, SubPath: sub, Target: target, Mounter: m.mounter,
			// To set a label the runtime must be able to write; the container still can't.
			ReadOnly: mounted.ReadOnly && !mounted.SELinuxRelabel,
		})
		if err != nil {
			return criconfig.Mount{}, fmt.Errorf("prepare the subPath: %w", err)
		}
		failpoint.Reached(failpoint.SubPathBound)
	}
	return mounted, nil
}

// specOf returns the pod's volume of that name.
func specOf(pod *v1.Pod, name string) (*v1.Volume, error) {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return &pod.Spec.Volumes[i], nil
		}
	}
	return nil, errors.New("the pod has no volume of this name")
}

// recursivelyReadOnly reports whether mounts below the volume are read-only too.
func (m *Manager) recursivelyReadOnly(pod *v1.Pod, vm *v1.VolumeMount) (bool, error) {
	if vm.RecursiveReadOnly == nil || *vm.RecursiveReadOnly == v1.RecursiveReadOnlyDisabled {
		return false, nil
	}
	mode := *vm.RecursiveReadOnly
	if !vm.ReadOnly {
		return false, fmt.Errorf("recursiveReadOnly: %s needs a mount that is readOnly", mode)
	}
	if vm.MountPropagation != nil && *vm.MountPropagation != v1.MountPropagationNone {
		return false, fmt.Errorf("recursiveReadOnly: %s can't be combined with mountPropagation: %s", mode, *vm.MountPropagation)
	}
	switch mode {
	case v1.RecursiveReadOnlyIfPossible:
		return m.recursiveReadOnly(pod), nil
	case v1.RecursiveReadOnlyEnabled:
		if !m.recursiveReadOnly(pod) {
			return false, errors.New("recursiveReadOnly: Enabled isn't supported by the runtime")
		}
		return true, nil
	default:
		return false, fmt.Errorf("recursiveReadOnly: %q is unknown", mode)
	}
}

// subPathOf returns the subPath, relative and clean; empty for the whole volume.
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

// reference matches $$, which is a dollar, and $(NAME), which is a value. Other dollars are plain text.
var reference = regexp.MustCompile(`\$\$|\$\([^)]*\)`)

// expand is criconfig.Expand, except that a name without a value is an error: otherwise a directory would be called
// $(NAME).
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
