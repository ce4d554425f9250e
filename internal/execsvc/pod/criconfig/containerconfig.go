package criconfig

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// ContainerInput is the input of ContainerConfig.
type ContainerInput struct {
	Pod       *v1.Pod
	Container *v1.Container
	// Attempt is the restart count.
	Attempt uint32
	// ImageRef is the runtime's name of the container's image.
	ImageRef string
	// ImageUser is the image's user. Nil if it isn't known: then runAsNonRoot needs a runAsUser.
	ImageUser *ImageUser
	// Env is the whole environment, in order. The command and its arguments can refer to it.
	Env []EnvVar
	// Mounts are the container's volumes, and Devices those that are block devices.
	Mounts  []Mount
	Devices []Device
	// TargetID is the ID of the container whose processes this one sees, if a pod's containers don't see each other's.
	// Empty: none.
	TargetID string
	// Agent is the value of podmeta.AgentAnnotation.
	Agent string
	// ExtraGroups are groups that volumes give to the pod's processes.
	ExtraGroups []int64
	// UserNamespace is that of the pod's sandbox.
	UserNamespace *UserNamespace
	Node          Node
}

// ContainerConfig returns the CRI config of one container. It fails if the pod's settings can't be provided; another
// attempt fails too, until the pod or the image changes.
func ContainerConfig(in ContainerInput) (*runtimeapi.ContainerConfig, error) {
	pod, c := in.Pod, in.Container
	security, err := containerSecurityContext(&in)
	if err != nil {
		return nil, err
	}
	annotations, err := containerAnnotations(in)
	if err != nil {
		return nil, err
	}
	signal, err := stopSignal(c)
	if err != nil {
		return nil, err
	}
	env, values := environment(in.Env)
	return &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: in.Attempt},
		Image:       &runtimeapi.ImageSpec{Image: in.ImageRef, UserSpecifiedImage: c.Image},
		Command:     expandAll(c.Command, values),
		Args:        expandAll(c.Args, values),
		WorkingDir:  c.WorkingDir,
		Envs:        env,
		Mounts:      mounts(in.Mounts, pod, security.NamespaceOptions.UsernsOptions),
		Devices:     devices(in.Devices),
		Labels:      merged(podmeta.Labels(pod), map[string]string{podmeta.ContainerNameLabel: c.Name}),
		Annotations: annotations,
		LogPath:     podmeta.LogPath(c.Name, in.Attempt),
		Stdin:       c.Stdin,
		StdinOnce:   c.StdinOnce,
		Tty:         c.TTY,
		StopSignal:  signal,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       LinuxResources(pod, c, &in.Node),
			SecurityContext: security,
		},
	}, nil
}

// containerAnnotations returns the properties of the container that are needed after its pod object is gone.
func containerAnnotations(in ContainerInput) (map[string]string, error) {
	pod, c := in.Pod, in.Container
	annotations := map[string]string{
		podmeta.AgentAnnotation:            in.Agent,
		ContainerHashAnnotation:            ContainerHash(c),
		RestartCountAnnotation:             strconv.FormatUint(uint64(in.Attempt), 10),
		TerminationMessagePathAnnotation:   c.TerminationMessagePath,
		TerminationMessagePolicyAnnotation: string(c.TerminationMessagePolicy),
	}
	for key, seconds := range map[string]*int64{
		PodDeletionGracePeriodAnnotation:    pod.DeletionGracePeriodSeconds,
		PodTerminationGracePeriodAnnotation: pod.Spec.TerminationGracePeriodSeconds,
	} {
		if seconds != nil {
			annotations[key] = strconv.FormatInt(*seconds, 10)
		}
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		text, err := json.Marshal(c.Lifecycle.PreStop)
		if err != nil {
			return nil, fmt.Errorf("encode the preStop hook: %w", err)
		}
		annotations[PreStopHandlerAnnotation] = string(text)
	}
	if len(c.Ports) > 0 {
		text, err := json.Marshal(c.Ports)
		if err != nil {
			return nil, fmt.Errorf("encode the ports: %w", err)
		}
		annotations[PortsAnnotation] = string(text)
	}
	if RestartsFor(c, v1.ResourceMemory) {
		annotations[MemoryRequestAnnotation] = strconv.FormatInt(c.Resources.Requests.Memory().Value(), 10)
	}
	return annotations, nil
}

// RestartsFor reports whether the container's resizePolicy has it restart when this resource changes.
func RestartsFor(c *v1.Container, name v1.ResourceName) bool {
	return slices.ContainsFunc(c.ResizePolicy, func(p v1.ContainerResizePolicy) bool {
		return p.ResourceName == name && p.RestartPolicy == v1.RestartContainer
	})
}

// realTimeSignal converts "SIGRTMIN+1" to the CRI's spelling, and apiSignal converts it back.
var (
	realTimeSignal = strings.NewReplacer("+", "PLUS", "-", "MINUS")
	apiSignal      = strings.NewReplacer("PLUS", "+", "MINUS", "-")
)

// SignalOf returns the stop signal that the runtime reports; nil if it reports none.
func SignalOf(signal runtimeapi.Signal) *v1.Signal {
	name, found := strings.CutPrefix(signal.String(), "SIGNAL_")
	if !found || signal == runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
		return nil
	}
	out := v1.Signal(apiSignal.Replace(name))
	return &out
}

// stopSignal returns the container's stop signal; zero for the image's own.
func stopSignal(c *v1.Container) (runtimeapi.Signal, error) {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
		return runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT, nil
	}
	name := "SIGNAL_" + realTimeSignal.Replace(string(*c.Lifecycle.StopSignal))
	signal, ok := runtimeapi.Signal_value[name]
	if !ok {
		return 0, fmt.Errorf("lifecycle.stopSignal: the runtime interface has no signal %s", *c.Lifecycle.StopSignal)
	}
	return runtimeapi.Signal(signal), nil
}
