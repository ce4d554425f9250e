package selinuxmount

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Volume is what the decision depends on.
type Volume struct {
	Pod *v1.Pod
	// Name is that of the pod's volume.
	Name string
	// Mountable is set if the driver mounts volumes with contexts: seLinuxMount of its CSIDriver.
	Mountable bool
	// Persistent is set if the volume is a PersistentVolume, with these access modes.
	Persistent bool
	Modes      []v1.PersistentVolumeAccessMode
}

// Chooser decides. Labels is needed; a nil Metrics counts nothing.
type Chooser struct {
	Labels  Labels
	Metrics *Metrics
	// OnlyReadWriteOncePod is set if the feature gate SELinuxMount is off.
	OnlyReadWriteOncePod bool
}

// Context returns the context with which the volume is mounted; empty: none. matters is set if a pod with another context, or
// with none, can't use the volume at the same time.
func (c *Chooser) Context(v Volume) (context string, matters bool, err error) {
	if !v.Mountable || !c.Labels.Enabled() {
		return "", false, nil
	}
	matters = c.mounts(v)
	if isRecursive(v.Pod) {
		return "", matters, nil
	}
	context, err = c.label(v)
	switch {
	case err == nil && matters:
		return context, true, nil
	case err == nil:
		return "", false, nil
	case matters:
		c.Metrics.failed(v, err, true)
		return "", true, err
	default:
		c.Metrics.failed(v, err, false)
		return "", false, nil
	}
}

// mounts reports whether volumes of this kind are mounted with a context.
func (c *Chooser) mounts(v Volume) bool {
	if !v.Persistent {
		return false
	}
	return !c.OnlyReadWriteOncePod || len(v.Modes) == 1 && v.Modes[0] == v1.ReadWriteOncePod
}

func isRecursive(pod *v1.Pod) bool {
	sc := pod.Spec.SecurityContext
	return sc != nil && sc.SELinuxChangePolicy != nil && *sc.SELinuxChangePolicy == v1.SELinuxChangePolicyRecursive
}

// label returns the label of the containers that mount the volume.
func (c *Chooser) label(v Volume) (string, error) {
	var labels []string
	for _, o := range options(v.Pod, v.Name) {
		text, err := c.fileLabel(o)
		if err != nil {
			return "", err
		}
		if !slices.Contains(labels, text) {
			labels = append(labels, text)
		}
	}
	switch len(labels) {
	case 0:
		return "", nil
	case 1:
		return labels[0], nil
	default:
		return "", &MultipleLabelsError{labels}
	}
}

// options returns the options of the containers that mount the pod's volume: the container's own, or else the pod's. A container without
// options is left out, as with the kubelet.
func options(pod *v1.Pod, volume string) []*v1.SELinuxOptions {
	var all []*v1.SELinuxOptions
	for _, container := range podmeta.Containers(pod) {
		mounts := func(m v1.VolumeMount) bool { return m.Name == volume }
		if o := effective(pod, container); o != nil && slices.ContainsFunc(container.VolumeMounts, mounts) {
			all = append(all, o)
		}
	}
	return all
}

func effective(pod *v1.Pod, c *v1.Container) *v1.SELinuxOptions {
	if sc := c.SecurityContext; sc != nil && sc.SELinuxOptions != nil {
		return sc.SELinuxOptions
	}
	if sc := pod.Spec.SecurityContext; sc != nil {
		return sc.SELinuxOptions
	}
	return nil
}

// fileLabel returns the label for one container's options. Empty: the runtime chooses it.
func (c *Chooser) fileLabel(o *v1.SELinuxOptions) (string, error) {
	if o.Level == "" {
		return "", nil
	}
	if err := checkOptions(o); err != nil {
		return "", err
	}
	text, err := c.Labels.FileLabel(o)
	if err != nil {
		return "", &LabelError{err}
	}
	return text, nil
}

// maxOption bounds a part of a context. The kernel's bound of a mount's options is 4096 bytes.
const maxOption = 1024

// checkOptions refuses what could end the value of the mount option. The API server doesn't restrict these texts, and drivers pass
// the option to mount(8), where another option could follow: "suid", for example.
func checkOptions(o *v1.SELinuxOptions) error {
	for _, part := range []string{o.User, o.Role, o.Type, o.Level} {
		if len(part) > maxOption || strings.ContainsFunc(part, func(r rune) bool { return !isContextRune(r) }) {
			return &LabelError{fmt.Errorf(
				"seLinuxOptions have %.64q, which can't be part of a mount option: only letters, digits and ._-:, can, at most %d bytes", part, maxOption)}
		}
	}
	return nil
}

func isContextRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-:,", r)
}

// Option returns the mount option of a context.
func Option(context string) string { return fmt.Sprintf("context=%q", context) }
