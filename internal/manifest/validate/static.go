package validate

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Static refuses what only an API server can provide. The kubelet refuses Secrets and ConfigMaps as well;
// Podstream serves those beside the manifests.
func Static(spec *v1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	refuse := func(at *field.Path, what string) {
		errs = append(errs, field.Forbidden(at, "static pods can't use "+what))
	}
	if spec.ServiceAccountName != "" {
		refuse(path.Child("serviceAccountName"), "service accounts")
	}
	if spec.DeprecatedServiceAccount != "" && spec.DeprecatedServiceAccount != spec.ServiceAccountName {
		refuse(path.Child("serviceAccount"), "service accounts")
	}
	if len(spec.ResourceClaims) > 0 {
		refuse(path.Child("resourceClaims"), "resource claims")
	}
	if len(spec.EphemeralContainers) > 0 {
		refuse(path.Child("ephemeralContainers"), "ephemeral containers: they are added to a running pod")
	}
	if len(spec.SchedulingGates) > 0 {
		refuse(path.Child("schedulingGates"), "scheduling gates: they aren't scheduled")
	}
	for i := range spec.Volumes {
		at := path.Child("volumes").Index(i)
		v := &spec.Volumes[i].VolumeSource
		if v.CSI != nil {
			refuse(at.Child("csi"), "CSI volumes")
		}
		if v.Glusterfs != nil {
			refuse(at.Child("glusterfs"), "GlusterFS volumes, which need Endpoints")
		}
		if v.Ephemeral != nil {
			refuse(at.Child("ephemeral"), "ephemeral volumes, which are persistent volume claims")
		}
		if v.Projected == nil {
			continue
		}
		for j := range v.Projected.Sources {
			at, source := at.Child("projected", "sources").Index(j), &v.Projected.Sources[j]
			if source.ServiceAccountToken != nil {
				refuse(at.Child("serviceAccountToken"), "service account tokens")
			}
			if source.ClusterTrustBundle != nil {
				refuse(at.Child("clusterTrustBundle"), "cluster trust bundles")
			}
			if source.PodCertificate != nil {
				refuse(at.Child("podCertificate"), "pod certificates")
			}
		}
	}
	eachContainer(spec, func(c *v1.Container, at *field.Path, _ bool) {
		if len(c.Resources.Claims) > 0 {
			refuse(at.Child("resources", "claims"), "resource claims")
		}
		if len(c.VolumeDevices) > 0 {
			refuse(at.Child("volumeDevices"), "block devices, which are persistent volume claims")
		}
	})
	return errs
}

// eachContainer calls visit with the init containers and then the others.
func eachContainer(spec *v1.PodSpec, visit func(c *v1.Container, at *field.Path, init bool)) {
	for i := range spec.InitContainers {
		visit(&spec.InitContainers[i], field.NewPath("spec", "initContainers").Index(i), true)
	}
	for i := range spec.Containers {
		visit(&spec.Containers[i], field.NewPath("spec", "containers").Index(i), false)
	}
}
