package workload

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Pod returns pod number n in one of its versions. Versions differ in one argument of one container, and have
// the same UID.
func Pod(n, version int) *v1.Pod {
	quantities := func(cpu, memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	}
	mount := func(readOnly bool) []v1.VolumeMount {
		return []v1.VolumeMount{{Name: "data", MountPath: "/var/lib/main", ReadOnly: readOnly}}
	}
	return &v1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("pod-%04d", n), Namespace: "kube-system", UID: types.UID(fmt.Sprintf("%032x", n+1)),
			Labels:      map[string]string{"component": "main", "tier": "control-plane"},
			Annotations: map[string]string{"example.com/owner": "benchmark"},
		},
		Spec: v1.PodSpec{
			NodeName: "node", HostNetwork: true, RestartPolicy: v1.RestartPolicyAlways, PriorityClassName: "system-node-critical",
			Containers: []v1.Container{
				{
					Name: "main", Image: "registry.example/main:v1.2.3",
					Command:   []string{"main", "--advertise-client-urls=https://10.0.0.1:2379", "--data-dir=/var/lib/main"},
					Args:      []string{fmt.Sprintf("--version=%d", version)},
					Resources: v1.ResourceRequirements{Requests: quantities("100m", "100Mi"), Limits: quantities("1", "200Mi")},
					LivenessProbe: &v1.Probe{
						ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{
							Host: "127.0.0.1", Path: "/health", Port: intstr.FromInt32(2381), Scheme: v1.URISchemeHTTP,
						}},
						FailureThreshold: 8, InitialDelaySeconds: 10, PeriodSeconds: 10, SuccessThreshold: 1, TimeoutSeconds: 15,
					},
					VolumeMounts: mount(false),
				},
				{
					Name: "side", Image: "registry.example/side:v1", Args: []string{"--watch", "/var/lib/main"},
					Env: []v1.EnvVar{{Name: "MODE", Value: "side"}}, VolumeMounts: mount(true),
				},
				{
					Name: "exporter", Image: "registry.example/exporter:v1",
					Ports: []v1.ContainerPort{{ContainerPort: 9100, Protocol: v1.ProtocolTCP}},
				},
			},
			Volumes: []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/var/lib/main"}}}},
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
}

// Sized is Pod with enough environment variables to have about the given size in protobuf, in bytes.
func Sized(n, version, size int) *v1.Pod {
	pod := Pod(n, version)
	main := &pod.Spec.Containers[0]
	for left, i := size-pod.Size(), 0; left > 0; i++ {
		v := v1.EnvVar{Name: fmt.Sprintf("SETTING_%04d", i), Value: "the value of a setting, as long as these are"}
		main.Env = append(main.Env, v)
		// The variable, its tag, and its length.
		left -= v.Size() + 2
	}
	return pod
}
