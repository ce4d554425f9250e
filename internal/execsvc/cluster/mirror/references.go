package mirror

import v1 "k8s.io/api/core/v1"

// references returns the kind of an API object that the pod refers to, as the API server determines it
// (NodeRestriction, by HasAPIObjectReference in pkg/api/pod, and ServiceAccount): a node may not create a pod that
// could read one. Empty: none. It checks only volumes that podexecd can set up or that only name an object; the API
// server rejects the others itself.
func references(pod *v1.Pod) string {
	spec := &pod.Spec
	switch {
	case spec.ServiceAccountName != "":
		return "a service account"
	case len(spec.ResourceClaims) > 0:
		return "resource claims"
	}
	for _, secret := range spec.ImagePullSecrets {
		if secret.Name != "" {
			return "Secrets"
		}
	}
	for _, containers := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			if kind := ofEnvironment(&containers[i]); kind != "" {
				return kind
			}
		}
	}
	for i := range spec.Volumes {
		if kind := ofVolume(&spec.Volumes[i].VolumeSource); kind != "" {
			return kind
		}
	}
	return ""
}

func ofEnvironment(c *v1.Container) string {
	for i := range c.EnvFrom {
		switch from := &c.EnvFrom[i]; {
		case from.SecretRef != nil && from.SecretRef.Name != "":
			return "Secrets"
		case from.ConfigMapRef != nil && from.ConfigMapRef.Name != "":
			return "ConfigMaps"
		}
	}
	for i := range c.Env {
		switch from := c.Env[i].ValueFrom; {
		case from == nil:
		case from.SecretKeyRef != nil && from.SecretKeyRef.Name != "":
			return "Secrets"
		case from.ConfigMapKeyRef != nil && from.ConfigMapKeyRef.Name != "":
			return "ConfigMaps"
		}
	}
	return ""
}

func ofVolume(v *v1.VolumeSource) string {
	switch {
	case v.Secret != nil:
		return "Secrets"
	case v.ConfigMap != nil:
		return "ConfigMaps"
	case v.PersistentVolumeClaim != nil, v.Ephemeral != nil:
		return "PersistentVolumeClaims"
	case v.CSI != nil:
		return "CSI drivers"
	case v.Projected == nil:
		return ""
	}
	for i := range v.Projected.Sources {
		switch from := &v.Projected.Sources[i]; {
		case from.Secret != nil:
			return "Secrets"
		case from.ConfigMap != nil:
			return "ConfigMaps"
		case from.ServiceAccountToken != nil:
			return "a service account"
		case from.ClusterTrustBundle != nil:
			return "ClusterTrustBundles"
		case from.PodCertificate != nil:
			return "pod certificates"
		}
	}
	return ""
}
