package execconfig

import (
	"crypto/tls"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
)

// KubeletConfiguration returns the effective configuration for /configz: the file's fields, with the values of flags
// and defaults in podexecd's fields. Unsupported fields are as in the file. Values of staticPodURLHeader are masked: they
// may be passwords.
func (s *Settings) KubeletConfiguration() *kubeletconfigv1beta1.KubeletConfiguration {
	c := s.file.DeepCopy()
	c.ContainerRuntimeEndpoint, c.ImageServiceEndpoint, c.PodLogsDir = s.RuntimeEndpoint, s.ImageEndpoint, s.PodLogsDir
	c.RuntimeRequestTimeout, c.SyncFrequency = duration(s.RequestTimeout), duration(s.SyncFrequency)
	c.SerializeImagePulls = &s.Pulls.Serial
	c.RegistryPullQPS, c.RegistryBurst = number(s.Pulls.QPS), int32(s.Pulls.Burst) //nolint:gosec // The settings were checked.
	if s.Pulls.MaxParallel > 0 {
		c.MaxParallelImagePulls = number(s.Pulls.MaxParallel)
	}
	c.CrashLoopBackOff.MaxContainerRestartPeriod = ptr.To(duration(s.RestartBackoff.Max))
	c.EventRecordQPS, c.EventBurst = number(s.EventQPS), int32(s.EventBurst) //nolint:gosec // The settings were checked.
	s.Node.into(c)
	s.Host.into(c)
	s.ImageGC.into(c)
	s.LogRotation.into(c)
	s.Shutdown.into(c)
	s.ImageAccess.into(c)
	s.Tracing.into(c)
	s.Cluster.into(c)
	s.NodeAPI.into(c)
	s.Eviction.into(c)
	s.gatesInto(c)
	for name := range c.StaticPodURLHeader {
		c.StaticPodURLHeader[name] = []string{masked}
	}
	return c
}

// masked is what the kubelet writes in place of a header's value.
const masked = "<masked>"

func duration(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

func number[T int | float32](n T) *int32 { return ptr.To(int32(n)) }

func (n *Node) into(c *kubeletconfigv1beta1.KubeletConfiguration) {
	c.CgroupRoot, c.CgroupDriver, c.CgroupsPerQOS, c.EnforceNodeAllocatable = n.CgroupRoot, n.CgroupDriver, &n.CgroupsPerQOS, n.EnforceNodeAllocatable
	c.PodPidsLimit, c.CPUCFSQuota, c.CPUCFSQuotaPeriod = &n.PodPidsLimit, &n.CPUQuota, ptr.To(duration(n.CPUQuotaPeriod))
	c.MemorySwap.SwapBehavior = noSwap
	if n.LimitedSwap {
		c.MemorySwap.SwapBehavior = limitedSwap
	}
	c.MaxPods = int32(n.MaxPods) //nolint:gosec // The settings were checked.
	c.KubeReserved, c.SystemReserved, c.EvictionHard = n.KubeReserved, n.SystemReserved, n.EvictionHard
	c.MergeDefaultEvictionSettings = nil // They are merged.
	if len(n.EvictionHard) == 0 {
		// An empty map would be dropped when it is written to a file; this means no threshold, too.
		c.EvictionHard = map[string]string{"memory.available": "0%"}
	}
	c.ClusterDNS, c.ClusterDomain, c.ResolverConfig = n.ClusterDNS, n.ClusterDomain, &n.ResolvConf
	c.AllowedUnsafeSysctls, c.SeccompDefault = n.UnsafeSysctls, &n.SeccompDefault
	c.LocalStorageCapacityIsolation, c.FailCgroupV1 = &n.LocalStorageCapacityIsolation, &n.FailCgroupV1
}

func (c *Cluster) into(file *kubeletconfigv1beta1.KubeletConfiguration) {
	file.RegisterNode, file.RegisterWithTaints, file.ProviderID, file.PodCIDR = &c.RegisterNode, c.RegisterWithTaints, c.ProviderID, c.PodCIDR
	file.EnableControllerAttachDetach = &c.EnableControllerAttachDetach
	file.NodeStatusUpdateFrequency, file.NodeStatusReportFrequency = duration(c.NodeStatusUpdateFrequency), duration(c.NodeStatusReportFrequency)
	file.NodeLeaseDurationSeconds, file.NodeStatusMaxImages = int32(c.NodeLeaseDuration/time.Second), number(c.NodeStatusMaxImages) //nolint:gosec // as above
	file.RotateCertificates, file.ContentType = c.RotateCertificates, c.ContentType
	file.KubeAPIQPS, file.KubeAPIBurst = number(c.KubeAPIQPS), int32(c.KubeAPIBurst) //nolint:gosec // The settings were checked.
}

func (n *NodeAPI) into(c *kubeletconfigv1beta1.KubeletConfiguration) {
	c.EnableServer, c.Address, c.HealthzBindAddress = &n.EnableServer, n.Address.String(), n.HealthzBindAddress.String()
	c.Port, c.ReadOnlyPort, c.HealthzPort = int32(n.Port), int32(n.ReadOnlyPort), number(n.HealthzPort) //nolint:gosec // The settings were checked.
	c.TLSCertFile, c.TLSPrivateKeyFile, c.ServerTLSBootstrap = n.TLSCertFile, n.TLSPrivateKeyFile, n.ServerTLSBootstrap
	c.TLSMinVersion, c.TLSCipherSuites = "Version"+strings.NewReplacer(" ", "", ".", "").Replace(tls.VersionName(n.TLSMinVersion)), nil
	for _, id := range n.TLSCipherSuites {
		c.TLSCipherSuites = append(c.TLSCipherSuites, tls.CipherSuiteName(id))
	}
	c.Authentication = kubeletconfigv1beta1.KubeletAuthentication{
		X509:      kubeletconfigv1beta1.KubeletX509Authentication{ClientCAFile: n.Authentication.ClientCAFile},
		Webhook:   kubeletconfigv1beta1.KubeletWebhookAuthentication{Enabled: &n.Authentication.Webhook, CacheTTL: duration(n.Authentication.WebhookCacheTTL)},
		Anonymous: kubeletconfigv1beta1.KubeletAnonymousAuthentication{Enabled: &n.Authentication.Anonymous},
	}
	c.Authorization = kubeletconfigv1beta1.KubeletAuthorization{
		Mode: kubeletconfigv1beta1.KubeletAuthorizationMode(n.Authorization.Mode),
		Webhook: kubeletconfigv1beta1.KubeletWebhookAuthorization{
			CacheAuthorizedTTL: duration(n.Authorization.CacheAuthorizedTTL), CacheUnauthorizedTTL: duration(n.Authorization.CacheUnauthorizedTTL),
		},
	}
	c.EnableDebuggingHandlers, c.EnableContentionProfiling = &n.EnableDebuggingHandlers, n.EnableContentionProfiling
	c.EnableProfilingHandler, c.EnableDebugFlagsHandler = &n.EnableProfilingHandler, &n.EnableDebugFlagsHandler
	c.EnableSystemLogHandler, c.EnableSystemLogQuery = &n.EnableSystemLogHandler, &n.EnableSystemLogQuery
	c.StreamingConnectionIdleTimeout = duration(n.StreamingConnectionIdleTimeout)
}

func (e *Eviction) into(c *kubeletconfigv1beta1.KubeletConfiguration) {
	c.EvictionSoft, c.EvictionMinimumReclaim = e.EvictionSoft, e.EvictionMinimumReclaim
	c.EvictionSoftGracePeriod = nil
	for signal, grace := range e.EvictionSoftGracePeriod {
		if c.EvictionSoftGracePeriod == nil {
			c.EvictionSoftGracePeriod = map[string]string{}
		}
		c.EvictionSoftGracePeriod[signal] = grace.String()
	}
	c.EvictionPressureTransitionPeriod = duration(e.EvictionPressureTransitionPeriod)
	c.KernelMemcgNotification = e.KernelMemcgNotification
	c.EvictionMaxPodGracePeriod = int32(e.EvictionMaxPodGracePeriod) //nolint:gosec // The settings were checked.
}
