package criconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

func TestContainerConfig(t *testing.T) {
	pod := webPod()
	pod.DeletionGracePeriodSeconds = ptr.To[int64](5)
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
	c := &v1.Container{
		Name: "nginx", Image: "nginx:1", Command: []string{"run", "$(MODE)"}, Args: []string{"$$(MODE)", "$(NONE)"},
		WorkingDir: "/srv/$(MODE)",
		Ports:      []v1.ContainerPort{{Name: "http", ContainerPort: 80, Protocol: v1.ProtocolTCP}},
		Lifecycle:  &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"bye"}}}, StopSignal: ptr.To(v1.SIGRTMINPLUS1)},
		Stdin:      true, StdinOnce: true, TTY: true,
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: v1.TerminationMessageReadFile,
	}
	got, err := ContainerConfig(ContainerInput{
		Pod: pod, Container: c, Attempt: 3, ImageRef: "sha256:77", Agent: "agent1", Env: []EnvVar{{"MODE", "fast"}},
		Mounts: []Mount{
			{HostPath: "/a", ContainerPath: "/b", ReadOnly: true},
			{HostPath: "/c", ContainerPath: "/d", Propagation: v1.MountPropagationBidirectional},
			{HostPath: "/e", ContainerPath: "/f", Propagation: v1.MountPropagationHostToContainer},
		},
		Devices: []Device{{HostPath: "/g", ContainerPath: "/dev/xvda", Permissions: "mrw"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &runtimeapi.ContainerConfig{
		Metadata:   &runtimeapi.ContainerMetadata{Name: "nginx", Attempt: 3},
		Image:      &runtimeapi.ImageSpec{Image: "sha256:77", UserSpecifiedImage: "nginx:1"},
		Command:    []string{"run", "fast"},
		Args:       []string{"$(MODE)", "$(NONE)"},
		WorkingDir: "/srv/$(MODE)",
		Envs:       []*runtimeapi.KeyValue{{Key: "MODE", Value: []byte("fast")}},
		Mounts: []*runtimeapi.Mount{
			{HostPath: "/a", ContainerPath: "/b", Readonly: true},
			{HostPath: "/c", ContainerPath: "/d", Propagation: runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL},
			{HostPath: "/e", ContainerPath: "/f", Propagation: runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER},
		},
		Devices: []*runtimeapi.Device{{HostPath: "/g", ContainerPath: "/dev/xvda", Permissions: "mrw"}},
		LogPath: "nginx/3.log",
		Stdin:   true, StdinOnce: true, Tty: true,
		StopSignal: runtimeapi.Signal_SIGNAL_SIGRTMINPLUS1,
		// The keys are written out: other agents and tools read them.
		Labels: map[string]string{
			"io.kubernetes.pod.name": "web-node1", "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": "u1",
			"io.kubernetes.container.name": "nginx",
		},
		Annotations: map[string]string{
			"podstream.io/agent":                               "agent1",
			"io.kubernetes.container.hash":                     ContainerHash(c),
			"io.kubernetes.container.restartCount":             "3",
			"io.kubernetes.container.terminationMessagePath":   "/dev/termination-log",
			"io.kubernetes.container.terminationMessagePolicy": "File",
			"io.kubernetes.container.preStopHandler":           `{"exec":{"command":["bye"]}}`,
			"io.kubernetes.container.ports":                    `[{"name":"http","containerPort":80,"protocol":"TCP"}]`,
			"io.kubernetes.pod.deletionGracePeriod":            "5",
			"io.kubernetes.pod.terminationGracePeriod":         "30",
		},
		Linux: got.GetLinux(),
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("ContainerConfig (-want +got):\n%s", diff)
	}
}

func TestContainerAnnotationsLeaveOutWhatIsntSet(t *testing.T) {
	got, err := containerAnnotations(ContainerInput{Pod: webPod(), Container: &v1.Container{Name: "c"}})
	if err != nil {
		t.Fatal(err)
	}
	for key := range got {
		switch key {
		case podmeta.AgentAnnotation, ContainerHashAnnotation, RestartCountAnnotation, TerminationMessagePathAnnotation, TerminationMessagePolicyAnnotation:
		default:
			t.Errorf("annotation %s is there", key)
		}
	}
}

func TestContainerConfigErrors(t *testing.T) {
	local := "p.json"
	for want, c := range map[string]v1.Container{
		"SIGNOPE": {Lifecycle: &v1.Lifecycle{StopSignal: ptr.To(v1.Signal("SIGNOPE"))}},
		"Localhost": {SecurityContext: &v1.SecurityContext{
			SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: &local}}},
		"appArmorProfile": {SecurityContext: &v1.SecurityContext{
			AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost}}},
		"non-root": {SecurityContext: &v1.SecurityContext{RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](0)}},
	} {
		_, err := ContainerConfig(ContainerInput{Pod: webPod(), Container: &c})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v doesn't mention %s", err, want)
		}
	}
}

// A container with a target joins its processes, unless the pod shares them anyway, whether the target runs or not.
func TestContainerConfigWithATarget(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1.PodSpec)
		want   runtimeapi.NamespaceMode
		target string
	}{
		"by default":        {func(*v1.PodSpec) {}, runtimeapi.NamespaceMode_TARGET, "c1"},
		"shared in the pod": {func(s *v1.PodSpec) { s.ShareProcessNamespace = ptr.To(true) }, runtimeapi.NamespaceMode_POD, ""},
		"the node's":        {func(s *v1.PodSpec) { s.HostPID = true }, runtimeapi.NamespaceMode_NODE, ""},
	} {
		pod := webPod()
		c.change(&pod.Spec)
		got, err := ContainerConfig(ContainerInput{Pod: pod, Container: &v1.Container{Name: "debug", Image: "busybox"}, TargetID: "c1"})
		if err != nil {
			t.Fatal(err)
		}
		options := got.GetLinux().GetSecurityContext().GetNamespaceOptions()
		if options.GetPid() != c.want || options.GetTargetId() != c.target {
			t.Errorf("%s: namespaces %v; want %v of %q", name, options, c.want, c.target)
		}
	}
}
