package podenv

import (
	"fmt"
	"io/fs"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/downward"
	"github.com/podstream/podstream/internal/execsvc/pod/objects"
)

// held are objects by name. Other objects don't exist, except for "later", which is unknown.
type held struct{ configMaps, secrets map[string]map[string]string }

func (h held) ConfigMap(name string) (*v1.ConfigMap, error) {
	data, err := h.data(h.configMaps, name)
	return &v1.ConfigMap{Data: data}, err
}

func (h held) Secret(name string) (*v1.Secret, error) {
	data, err := h.data(h.secrets, name)
	s := &v1.Secret{Data: map[string][]byte{}}
	for key, value := range data {
		s.Data[key] = []byte(value)
	}
	return s, err
}

func (held) data(of map[string]map[string]string, name string) (map[string]string, error) {
	if name == "later" {
		return nil, fmt.Errorf("object shop/later: %w", objects.ErrUnknown)
	}
	data, ok := of[name]
	if !ok {
		return nil, fmt.Errorf("object shop/%s: %w", name, objects.ErrMissing)
	}
	return data, nil
}

var optional = new(true)

// input returns the Input of the pod shop/web with a container main that has this environment.
func input(from []v1.EnvFromSource, env ...v1.EnvVar) Input {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", Labels: map[string]string{"app": "x"}},
		Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "main", EnvFrom: from, Env: env}, {
				Name:      "other",
				Resources: v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse("3")}},
			}},
			Volumes: []v1.Volume{
				{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
				{Name: "node", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/etc"}}},
			},
		},
	}
	return Input{
		Pod: pod, Container: &pod.Spec.Containers[0],
		Objects: held{
			configMaps: map[string]map[string]string{
				"cm":    {"B": "cm-b", "A": "cm-a", "my.key": "dots", "REF": "$(A)"},
				"odd":   {"1=2": "x", "\n": "y", "FINE": "z"},
				"empty": nil,
			},
			secrets: map[string]map[string]string{"s": {"A": "secret-a", "S": "hunter2"}},
		},
		Facts: downward.Facts{
			Node: "n1", PodIPs: []string{"10.0.0.7"},
			Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")},
		},
		ReadFile: func(volume, path string) ([]byte, error) {
			switch volume + "/" + path {
			case "scratch/good":
				return []byte("A='file-a'\nEMPTY=''\n"), nil
			case "scratch/bad":
				return []byte("A=hunter2\n"), nil
			default:
				return nil, fmt.Errorf("open %s: %w", path, fs.ErrNotExist)
			}
		},
	}
}

func fromConfigMap(prefix, name string, optional *bool) v1.EnvFromSource {
	return v1.EnvFromSource{Prefix: prefix, ConfigMapRef: &v1.ConfigMapEnvSource{
		LocalObjectReference: v1.LocalObjectReference{Name: name}, Optional: optional,
	}}
}

func fromSecret(prefix, name string, optional *bool) v1.EnvFromSource {
	return v1.EnvFromSource{Prefix: prefix, SecretRef: &v1.SecretEnvSource{
		LocalObjectReference: v1.LocalObjectReference{Name: name}, Optional: optional,
	}}
}

func plain(name, value string) v1.EnvVar { return v1.EnvVar{Name: name, Value: value} }

func field(name, path string) v1.EnvVar {
	return v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}}
}

func limit(name, container, of string) v1.EnvVar {
	return v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{
		ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: container, Resource: of},
	}}
}

func configMapKey(name, of, key string, optional *bool) v1.EnvVar {
	return v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{
		LocalObjectReference: v1.LocalObjectReference{Name: of}, Key: key, Optional: optional,
	}}}
}

func secretKey(name, of, key string, optional *bool) v1.EnvVar {
	return v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{
		LocalObjectReference: v1.LocalObjectReference{Name: of}, Key: key, Optional: optional,
	}}}
}

func fileKey(name, volume, path, key string, optional *bool) v1.EnvVar {
	return v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{
		VolumeName: volume, Path: path, Key: key, Optional: optional,
	}}}
}

// shown formats an environment as "A=1 B=2".
func shown(env []criconfig.EnvVar) string {
	var list []string
	for _, v := range env {
		list = append(list, v.Name+"="+v.Value)
	}
	return strings.Join(list, " ")
}
