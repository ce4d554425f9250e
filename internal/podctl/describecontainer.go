package podctl

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/podctl/podsummary"
)

// containers prints each container with its status, grouped by kind.
func (d *description) containers(p *podsummary.Pod) {
	var spec corev1.PodSpec
	if p.Content != nil {
		spec = p.Content.Spec
	}
	var status corev1.PodStatus
	if p.Status != nil {
		status = *p.Status
	}
	var ephemeral []corev1.Container
	for i := range spec.EphemeralContainers {
		ephemeral = append(ephemeral, corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	d.containersOf("Init Containers", spec.InitContainers, status.InitContainerStatuses)
	d.containersOf("Containers", spec.Containers, status.ContainerStatuses)
	d.containersOf("Ephemeral Containers", ephemeral, status.EphemeralContainerStatuses)
}

func (d *description) containersOf(title string, specs []corev1.Container, statuses []corev1.ContainerStatus) {
	if len(specs) == 0 && len(statuses) == 0 {
		return
	}
	d.title(0, title)
	for i := range specs {
		d.title(1, specs[i].Name)
		d.containerStatus(statusOf(statuses, specs[i].Name))
		d.containerSpec(&specs[i])
	}
	for i := range statuses {
		if !slices.ContainsFunc(specs, func(c corev1.Container) bool { return c.Name == statuses[i].Name }) {
			d.title(1, statuses[i].Name)
			d.field(2, "Image", statuses[i].Image)
			d.containerStatus(&statuses[i])
		}
	}
}

func statusOf(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}

func (d *description) containerSpec(c *corev1.Container) {
	d.field(2, "Image", c.Image)
	d.field(2, "Pull Policy", string(c.ImagePullPolicy))
	if c.RestartPolicy != nil {
		d.field(2, "Restart Policy", string(*c.RestartPolicy))
	}
	var ports []string
	for _, port := range c.Ports {
		ports = append(ports, portText(port))
	}
	d.field(2, "Ports", strings.Join(ports, ", "))
	d.field(2, "Command", quoted(c.Command))
	d.field(2, "Args", quoted(c.Args))
	d.list(2, "Limits", resources(c.Resources.Limits))
	d.list(2, "Requests", resources(c.Resources.Requests))
	d.field(2, "Startup", probeText(c.StartupProbe))
	d.field(2, "Readiness", probeText(c.ReadinessProbe))
	d.field(2, "Liveness", probeText(c.LivenessProbe))
	var env []string
	for i := range c.Env {
		env = append(env, envText(&c.Env[i]))
	}
	for _, from := range c.EnvFrom {
		env = append(env, envFromText(from))
	}
	d.list(2, "Environment", env)
	var mounts []string
	for _, m := range c.VolumeMounts {
		mode := "rw"
		if m.ReadOnly {
			mode = "ro"
		}
		mounts = append(mounts, fmt.Sprintf("%s from %s (%s)", m.MountPath, m.Name, mode))
	}
	d.list(2, "Mounts", mounts)
}

// containerStatus prints nothing if there is none.
func (d *description) containerStatus(c *corev1.ContainerStatus) {
	if c == nil {
		return
	}
	d.field(2, "Container ID", c.ContainerID)
	d.field(2, "Image ID", c.ImageID)
	d.containerState("State", c.State)
	if c.LastTerminationState != (corev1.ContainerState{}) {
		d.containerState("Last State", c.LastTerminationState)
	}
	d.field(2, "Ready", conditionStatus(c.Ready))
	if c.Started != nil {
		d.field(2, "Started", conditionStatus(*c.Started))
	}
	d.field(2, "Restart Count", strconv.Itoa(int(c.RestartCount)))
}

func (d *description) containerState(name string, s corev1.ContainerState) {
	switch {
	case s.Running != nil:
		d.field(2, name, "Running")
		d.field(3, "Started", d.when(s.Running.StartedAt))
	case s.Terminated != nil:
		d.field(2, name, "Terminated")
		d.field(3, "Reason", s.Terminated.Reason)
		d.field(3, "Message", s.Terminated.Message)
		d.field(3, "Exit Code", strconv.Itoa(int(s.Terminated.ExitCode)))
		d.field(3, "Started", d.when(s.Terminated.StartedAt))
		d.field(3, "Finished", d.when(s.Terminated.FinishedAt))
	default:
		d.field(2, name, "Waiting")
		if s.Waiting != nil {
			d.field(3, "Reason", s.Waiting.Reason)
			d.field(3, "Message", s.Waiting.Message)
		}
	}
}

func portText(p corev1.ContainerPort) string {
	text := fmt.Sprintf("%d/%s", p.ContainerPort, p.Protocol)
	if p.HostPort != 0 {
		text += fmt.Sprintf(" (host %d)", p.HostPort)
	}
	if p.Name != "" {
		text = p.Name + " " + text
	}
	return text
}

// quoted quotes arguments, so that each one's start and end are visible.
func quoted(args []string) string {
	var out []string
	for _, arg := range args {
		if arg == "" || strings.ContainsAny(arg, " \t\n\"'\\") {
			arg = strconv.Quote(arg)
		}
		out = append(out, arg)
	}
	return strings.Join(out, " ")
}

func resources(list corev1.ResourceList) []string {
	texts := map[string]string{}
	for name, quantity := range list {
		texts[string(name)] = quantity.String()
	}
	return keyValues(texts)
}

func envText(e *corev1.EnvVar) string {
	if e.ValueFrom == nil {
		return e.Name + "=" + e.Value
	}
	switch from := e.ValueFrom; {
	case from.SecretKeyRef != nil:
		return fmt.Sprintf("%s from key %s of secret %s", e.Name, from.SecretKeyRef.Key, from.SecretKeyRef.Name)
	case from.ConfigMapKeyRef != nil:
		return fmt.Sprintf("%s from key %s of config map %s", e.Name, from.ConfigMapKeyRef.Key, from.ConfigMapKeyRef.Name)
	case from.FieldRef != nil:
		return fmt.Sprintf("%s from the pod's %s", e.Name, from.FieldRef.FieldPath)
	case from.ResourceFieldRef != nil:
		return fmt.Sprintf("%s from the container's %s", e.Name, from.ResourceFieldRef.Resource)
	default:
		return e.Name + " from elsewhere"
	}
}

func envFromText(e corev1.EnvFromSource) string {
	switch {
	case e.SecretRef != nil:
		return fmt.Sprintf("%s* from secret %s", e.Prefix, e.SecretRef.Name)
	case e.ConfigMapRef != nil:
		return fmt.Sprintf("%s* from config map %s", e.Prefix, e.ConfigMapRef.Name)
	default:
		return e.Prefix + "* from elsewhere"
	}
}

// conditionStatus returns a value as kubectl describe prints it.
func conditionStatus(v bool) string {
	if v {
		return string(corev1.ConditionTrue)
	}
	return string(corev1.ConditionFalse)
}
