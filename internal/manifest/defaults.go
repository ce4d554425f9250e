package manifest

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/manifest/validate"
)

// setDefaults sets the API server's defaults (pkg/apis/core/v1/defaults.go), as far as a static pod can use them. A
// changed default changes the spec digest, but never the UID.
func setDefaults(pod *v1.Pod) {
	spec := &pod.Spec
	defaultTo(&spec.RestartPolicy, v1.RestartPolicyAlways)
	defaultTo(&spec.DNSPolicy, v1.DNSClusterFirst)
	defaultTo(&spec.SchedulerName, v1.DefaultSchedulerName)
	pointTo(&spec.TerminationGracePeriodSeconds, v1.DefaultTerminationGracePeriodSeconds)
	if *spec.TerminationGracePeriodSeconds < 0 {
		*spec.TerminationGracePeriodSeconds = 1
	}
	pointTo(&spec.SecurityContext, v1.PodSecurityContext{})
	pointTo(&spec.EnableServiceLinks, v1.DefaultEnableServiceLinks)
	roundUp(spec.Overhead)
	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i].VolumeSource)
	}
	for i := range spec.InitContainers {
		defaultContainer(&spec.InitContainers[i], spec.HostNetwork)
	}
	for i := range spec.Containers {
		defaultContainer(&spec.Containers[i], spec.HostNetwork)
	}
	for i := range spec.EphemeralContainers {
		defaultContainer((*v1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon), false)
	}
	if spec.Resources != nil {
		roundUp(spec.Resources.Limits)
		roundUp(spec.Resources.Requests)
	}
	defaultPodResources(pod)
}

func defaultContainer(c *v1.Container, hostNetwork bool) {
	defaultTo(&c.TerminationMessagePath, v1.TerminationMessagePathDefault)
	defaultTo(&c.TerminationMessagePolicy, v1.TerminationMessageReadFile)
	defaultTo(&c.ImagePullPolicy, pullPolicy(c.Image))
	for i := range c.Ports {
		defaultTo(&c.Ports[i].Protocol, v1.ProtocolTCP)
		if hostNetwork {
			defaultTo(&c.Ports[i].HostPort, c.Ports[i].ContainerPort)
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			defaultFieldRef(from.FieldRef)
			if from.FileKeyRef != nil {
				pointTo(&from.FileKeyRef.Optional, false)
			}
		}
	}
	defaultResources(&c.Resources)
	for _, probe := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		defaultProbe(probe)
	}
	if c.Lifecycle != nil {
		for _, hook := range []*v1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if hook != nil {
				defaultHTTPGet(hook.HTTPGet)
			}
		}
	}
}

// defaultResources makes a limit the request where there is none.
func defaultResources(r *v1.ResourceRequirements) {
	roundUp(r.Limits)
	roundUp(r.Requests)
	for name, limit := range r.Limits {
		setMissing(&r.Requests, name, limit)
	}
}

// defaultPodResources sets the requests of the pod as a whole, and its limits of huge pages, if it names any resource
// of the pod.
func defaultPodResources(pod *v1.Pod) {
	r := pod.Spec.Resources
	if r == nil || len(r.Limits) == 0 && len(r.Requests) == 0 {
		return
	}
	limits := podresource.AggregateContainerLimits(pod, podresource.PodResourcesOptions{})
	for name, quantity := range limits {
		_, requested := r.Requests[name]
		if validate.IsHugePage(name) && podresource.IsSupportedPodLevelResource(name) && !requested {
			setMissing(&r.Limits, name, quantity)
		}
	}
	if len(r.Limits) == 0 {
		return
	}
	requests := podresource.AggregateContainerRequests(pod, podresource.PodResourcesOptions{})
	for name, quantity := range requests {
		if podresource.IsSupportedPodLevelResource(name) && !validate.IsHugePage(name) {
			setMissing(&r.Requests, name, quantity)
		}
	}
	for name, quantity := range r.Limits {
		if podresource.IsSupportedPodLevelResource(name) {
			setMissing(&r.Requests, name, quantity)
		}
	}
}

// setMissing sets a resource that the list doesn't have.
func setMissing(list *v1.ResourceList, name v1.ResourceName, quantity resource.Quantity) {
	if _, ok := (*list)[name]; ok {
		return
	}
	if *list == nil {
		*list = v1.ResourceList{}
	}
	(*list)[name] = quantity.DeepCopy()
}

// roundUp rounds up to a thousandth, as the API server does.
func roundUp(list v1.ResourceList) {
	for name, quantity := range list {
		quantity.RoundUp(resource.Milli)
		list[name] = quantity
	}
}

func defaultProbe(p *v1.Probe) {
	if p == nil {
		return
	}
	defaultTo(&p.TimeoutSeconds, 1)
	defaultTo(&p.PeriodSeconds, 10)
	defaultTo(&p.SuccessThreshold, 1)
	defaultTo(&p.FailureThreshold, 3)
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		pointTo(&p.GRPC.Service, "")
	}
}

func defaultHTTPGet(get *v1.HTTPGetAction) {
	if get == nil {
		return
	}
	defaultTo(&get.Path, "/")
	defaultTo(&get.Scheme, v1.URISchemeHTTP)
}

func defaultFieldRef(ref *v1.ObjectFieldSelector) {
	if ref != nil {
		defaultTo(&ref.APIVersion, "v1")
	}
}

func defaultVolume(v *v1.VolumeSource) {
	if *v == (v1.VolumeSource{}) {
		v.EmptyDir = &v1.EmptyDirVolumeSource{}
	}
	if v.HostPath != nil {
		pointTo(&v.HostPath.Type, v1.HostPathUnset)
	}
	if v.Secret != nil {
		pointTo(&v.Secret.DefaultMode, v1.SecretVolumeSourceDefaultMode)
	}
	if v.ConfigMap != nil {
		pointTo(&v.ConfigMap.DefaultMode, v1.ConfigMapVolumeSourceDefaultMode)
	}
	if v.DownwardAPI != nil {
		pointTo(&v.DownwardAPI.DefaultMode, v1.DownwardAPIVolumeSourceDefaultMode)
		defaultFields(v.DownwardAPI.Items)
	}
	if v.Image != nil {
		defaultTo(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	}
	defaultDisk(v)
	if v.Projected == nil {
		return
	}
	pointTo(&v.Projected.DefaultMode, v1.ProjectedVolumeSourceDefaultMode)
	for _, source := range v.Projected.Sources {
		if source.DownwardAPI != nil {
			defaultFields(source.DownwardAPI.Items)
		}
		if source.ServiceAccountToken != nil {
			pointTo(&source.ServiceAccountToken.ExpirationSeconds, 3600)
		}
	}
}

func defaultDisk(v *v1.VolumeSource) {
	if s := v.ISCSI; s != nil {
		defaultTo(&s.ISCSIInterface, "default")
	}
	if s := v.RBD; s != nil {
		defaultTo(&s.RBDPool, "rbd")
		defaultTo(&s.RadosUser, "admin")
		defaultTo(&s.Keyring, "/etc/ceph/keyring")
	}
	if s := v.AzureDisk; s != nil {
		pointTo(&s.CachingMode, v1.AzureDataDiskCachingReadWrite)
		pointTo(&s.FSType, "ext4")
		pointTo(&s.ReadOnly, false)
		pointTo(&s.Kind, v1.AzureSharedBlobDisk)
	}
	if s := v.ScaleIO; s != nil {
		defaultTo(&s.StorageMode, "ThinProvisioned")
		defaultTo(&s.FSType, "xfs")
	}
}

func defaultFields(files []v1.DownwardAPIVolumeFile) {
	for i := range files {
		defaultFieldRef(files[i].FieldRef)
	}
}

// defaultTo sets a field that has its zero value.
func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// pointTo sets a field that is nil.
func pointTo[T any](field **T, value T) {
	if *field == nil {
		*field = ptr.To(value)
	}
}
