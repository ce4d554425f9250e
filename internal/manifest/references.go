package manifest

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// References returns the ConfigMaps and Secrets that a pod refers to, in the order of ObjectKey.Compare, each once:
// those that the kubelet reads to run it (pkg/api/v1/pod, VisitPodSecretNames and VisitPodConfigmapNames), optional
// ones included.
func References(pod *v1.Pod) []ObjectKey {
	refs := references{namespace: pod.Namespace}
	spec := &pod.Spec
	for i := range spec.ImagePullSecrets {
		refs.secret(spec.ImagePullSecrets[i].Name)
	}
	for i := range spec.InitContainers {
		refs.container(spec.InitContainers[i].EnvFrom, spec.InitContainers[i].Env)
	}
	for i := range spec.Containers {
		refs.container(spec.Containers[i].EnvFrom, spec.Containers[i].Env)
	}
	for i := range spec.EphemeralContainers {
		refs.container(spec.EphemeralContainers[i].EnvFrom, spec.EphemeralContainers[i].Env)
	}
	for i := range spec.Volumes {
		refs.volume(&spec.Volumes[i].VolumeSource)
	}
	slices.SortFunc(refs.keys, ObjectKey.Compare)
	return slices.Compact(refs.keys)
}

// references collects the keys of one pod.
type references struct {
	namespace string
	keys      []ObjectKey
}

func (r *references) add(kind ObjectKind, name string) {
	if name != "" {
		r.keys = append(r.keys, ObjectKey{Kind: kind, Namespace: r.namespace, Name: name})
	}
}

func (r *references) configMap(name string) { r.add(ConfigMapKind, name) }
func (r *references) secret(name string)    { r.add(SecretKind, name) }

// local adds the Secret that a volume names, if any.
func (r *references) local(ref *v1.LocalObjectReference) {
	if ref != nil {
		r.secret(ref.Name)
	}
}

func (r *references) container(from []v1.EnvFromSource, env []v1.EnvVar) {
	for i := range from {
		if ref := from[i].ConfigMapRef; ref != nil {
			r.configMap(ref.Name)
		}
		if ref := from[i].SecretRef; ref != nil {
			r.secret(ref.Name)
		}
	}
	for i := range env {
		source := env[i].ValueFrom
		if source == nil {
			continue
		}
		if ref := source.ConfigMapKeyRef; ref != nil {
			r.configMap(ref.Name)
		}
		if ref := source.SecretKeyRef; ref != nil {
			r.secret(ref.Name)
		}
	}
}

func (r *references) volume(v *v1.VolumeSource) {
	switch {
	case v.ConfigMap != nil:
		r.configMap(v.ConfigMap.Name)
	case v.Secret != nil:
		r.secret(v.Secret.SecretName)
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			if source := v.Projected.Sources[i].ConfigMap; source != nil {
				r.configMap(source.Name)
			}
			if source := v.Projected.Sources[i].Secret; source != nil {
				r.secret(source.Name)
			}
		}
	case v.AzureFile != nil:
		r.secret(v.AzureFile.SecretName)
	case v.CephFS != nil:
		r.local(v.CephFS.SecretRef)
	case v.Cinder != nil:
		r.local(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		r.local(v.FlexVolume.SecretRef)
	case v.RBD != nil:
		r.local(v.RBD.SecretRef)
	case v.ScaleIO != nil:
		r.local(v.ScaleIO.SecretRef)
	case v.ISCSI != nil:
		r.local(v.ISCSI.SecretRef)
	case v.StorageOS != nil:
		r.local(v.StorageOS.SecretRef)
	case v.CSI != nil:
		r.local(v.CSI.NodePublishSecretRef)
	}
}
