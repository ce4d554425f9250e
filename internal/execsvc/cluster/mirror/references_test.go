package mirror

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

// A pod that refers to objects of the API server has no mirror pod, and the log says why, once; an older version's goes.
func TestReferences(t *testing.T) {
	secret := v1.LocalObjectReference{Name: "s"}
	for name, tt := range map[string]struct {
		change func(*v1.PodSpec)
		want   string
	}{
		"nothing": {func(*v1.PodSpec) {}, ""},
		"a host's path": {func(s *v1.PodSpec) {
			s.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}}}}
		}, ""},
		"service account":   {func(s *v1.PodSpec) { s.ServiceAccountName = "a" }, "a service account"},
		"pull secret":       {func(s *v1.PodSpec) { s.ImagePullSecrets = []v1.LocalObjectReference{secret} }, "Secrets"},
		"empty pull secret": {func(s *v1.PodSpec) { s.ImagePullSecrets = []v1.LocalObjectReference{{}} }, ""},
		"resource claim":    {func(s *v1.PodSpec) { s.ResourceClaims = []v1.PodResourceClaim{{Name: "c"}} }, "resource claims"},
		"environment from a ConfigMap": {func(s *v1.PodSpec) {
			s.Containers[0].EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: secret}}}
		}, "ConfigMaps"},
		"variable of an init container": {func(s *v1.PodSpec) {
			s.InitContainers = []v1.Container{{Env: []v1.EnvVar{
				{Name: "A", Value: "b"}, {Name: "B", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: secret}}},
			}}}
		}, "Secrets"},
		"Secret volume":    {volume(v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}), "Secrets"},
		"ConfigMap volume": {volume(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}), "ConfigMaps"},
		"claim":            {volume(v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}), "PersistentVolumeClaims"},
		"ephemeral volume": {volume(v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}), "PersistentVolumeClaims"},
		"CSI volume":       {volume(v1.VolumeSource{CSI: &v1.CSIVolumeSource{}}), "CSI drivers"},
		"projected token": {volume(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{DownwardAPI: &v1.DownwardAPIProjection{}}, {ServiceAccountToken: &v1.ServiceAccountTokenProjection{}},
		}}}), "a service account"},
		"projected fields": {volume(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{DownwardAPI: &v1.DownwardAPIProjection{}},
		}}}), ""},
	} {
		pod := newPod("web-n1", "u2")
		tt.change(&pod.Spec)
		if got := references(pod); got != tt.want {
			t.Errorf("%s: the pod refers to %q; want %q", name, got, tt.want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, newPod("web-n1", "u1"))
		time.Sleep(time.Minute)
		pod := newPod("web-n1", "u2")
		pod.Spec.ServiceAccountName = "a"
		n.replace(newPod("web-n1", "u1"), pod)
		time.Sleep(10 * time.Minute)
		if n.verbs() != "create delete" || n.log.Count("runs without a mirror pod") != 1 {
			t.Errorf("the requests are %q, and it is told %d times", n.verbs(), n.log.Count("runs without a mirror pod"))
		}
	})
}

func volume(source v1.VolumeSource) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) { s.Volumes = []v1.Volume{{Name: "v", VolumeSource: source}} }
}
