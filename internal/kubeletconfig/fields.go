package kubeletconfig

// owner is the daemon that a field of a KubeletConfiguration concerns.
type owner int

const (
	// podconfigd reads the field.
	podconfigd owner = iota + 1
	// podexecd reads the field: it is about how pods run, or what the node reports of them. Podconfigd ignores it.
	podexecd
	// unused: no daemon reads the field. It is about the kubelet as a process, or Podstream does it in another way.
	unused
)

// owners has every field, in the order of the type; kind and apiVersion belong to the document.
var owners = []struct {
	field string
	owner owner
}{
	{"enableServer", podexecd},
	{"staticPodPath", podconfigd},
	{"podLogsDir", podexecd},
	{"syncFrequency", podexecd},
	{"fileCheckFrequency", podconfigd},
	{"httpCheckFrequency", podconfigd},
	{"staticPodURL", podconfigd},
	{"staticPodURLHeader", podconfigd},
	{"address", podexecd},
	{"port", podexecd},
	{"readOnlyPort", podexecd},
	{"tlsCertFile", podexecd},
	{"tlsPrivateKeyFile", podexecd},
	{"tlsCipherSuites", podexecd},
	{"tlsCurvePreferences", podexecd},
	{"tlsMinVersion", podexecd},
	{"rotateCertificates", podexecd},
	{"serverTLSBootstrap", podexecd},
	{"authentication", podexecd},
	{"authorization", podexecd},
	{"registryPullQPS", podexecd},
	{"registryBurst", podexecd},
	{"imagePullCredentialsVerificationPolicy", podexecd},
	{"preloadedImagesVerificationAllowlist", podexecd},
	{"eventRecordQPS", podexecd},
	{"eventBurst", podexecd},
	{"enableDebuggingHandlers", podexecd},
	{"enableContentionProfiling", podexecd},
	{"healthzPort", podexecd},
	{"healthzBindAddress", podexecd},
	{"oomScoreAdj", podexecd},
	{"clusterDomain", podexecd},
	{"clusterDNS", podexecd},
	{"streamingConnectionIdleTimeout", podexecd},
	{"nodeStatusUpdateFrequency", podexecd},
	{"nodeStatusReportFrequency", podexecd},
	{"nodeLeaseDurationSeconds", podexecd},
	{"imageMinimumGCAge", podexecd},
	{"imageMaximumGCAge", podexecd},
	{"imageGCHighThresholdPercent", podexecd},
	{"imageGCLowThresholdPercent", podexecd},
	{"volumeStatsAggPeriod", unused},
	{"kubeletCgroups", podexecd},
	{"systemCgroups", podexecd},
	{"cgroupRoot", podexecd},
	{"cgroupsPerQOS", podexecd},
	{"cgroupDriver", podexecd},
	{"cpuManagerPolicy", podexecd},
	{"singleProcessOOMKill", podexecd},
	{"cpuManagerPolicyOptions", podexecd},
	{"cpuManagerReconcilePeriod", podexecd},
	{"memoryManagerPolicy", podexecd},
	{"topologyManagerPolicy", podexecd},
	{"topologyManagerScope", podexecd},
	{"topologyManagerPolicyOptions", podexecd},
	{"qosReserved", podexecd},
	{"runtimeRequestTimeout", podexecd},
	{"hairpinMode", podexecd},
	{"maxPods", podexecd},
	{"podCIDR", podexecd},
	{"podPidsLimit", podexecd},
	{"resolvConf", podexecd},
	{"runOnce", unused},
	{"cpuCFSQuota", podexecd},
	{"cpuCFSQuotaPeriod", podexecd},
	{"nodeStatusMaxImages", podexecd},
	{"maxOpenFiles", podexecd},
	{"contentType", podexecd},
	{"kubeAPIQPS", podexecd},
	{"kubeAPIBurst", podexecd},
	{"serializeImagePulls", podexecd},
	{"maxParallelImagePulls", podexecd},
	{"evictionHard", podexecd},
	{"evictionSoft", podexecd},
	{"evictionSoftGracePeriod", podexecd},
	{"evictionPressureTransitionPeriod", podexecd},
	{"evictionMaxPodGracePeriod", podexecd},
	{"evictionMinimumReclaim", podexecd},
	{"mergeDefaultEvictionSettings", podexecd},
	{"podsPerCore", podexecd},
	{"enableControllerAttachDetach", podexecd},
	{"protectKernelDefaults", podexecd},
	{"makeIPTablesUtilChains", unused},
	{"iptablesMasqueradeBit", unused},
	{"iptablesDropBit", unused},
	{"featureGates", podexecd},
	{"failSwapOn", podexecd},
	{"memorySwap", podexecd},
	{"containerLogMaxSize", podexecd},
	{"containerLogMaxFiles", podexecd},
	{"containerLogMaxWorkers", podexecd},
	{"containerLogMonitorInterval", podexecd},
	{"configMapAndSecretChangeDetectionStrategy", podconfigd},
	{"systemReserved", podexecd},
	{"kubeReserved", podexecd},
	{"reservedSystemCPUs", podexecd},
	{"showHiddenMetricsForVersion", unused},
	{"systemReservedCgroup", podexecd},
	{"kubeReservedCgroup", podexecd},
	{"enforceNodeAllocatable", podexecd},
	{"allowedUnsafeSysctls", podexecd},
	{"defaultPodSysctls", podexecd},
	{"volumePluginDir", unused},
	{"providerID", podexecd},
	{"kernelMemcgNotification", podexecd},
	{"logging", unused},
	{"enableSystemLogHandler", podexecd},
	{"enableSystemLogQuery", podexecd},
	{"shutdownGracePeriod", podexecd},
	{"shutdownGracePeriodCriticalPods", podexecd},
	{"shutdownGracePeriodByPodPriority", podexecd},
	{"crashLoopBackOff", podexecd},
	{"reservedMemory", podexecd},
	{"enableProfilingHandler", podexecd},
	{"enableDebugFlagsHandler", podexecd},
	{"seccompDefault", podexecd},
	{"memoryThrottlingFactor", podexecd},
	{"memoryReservationPolicy", podexecd},
	{"registerWithTaints", podexecd},
	{"registerNode", podexecd},
	{"tracing", podexecd},
	{"localStorageCapacityIsolation", podexecd},
	{"containerRuntimeEndpoint", podexecd},
	{"imageServiceEndpoint", podexecd},
	{"failCgroupV1", podexecd},
	{"userNamespaces", podexecd},
}

// Ignored returns the set fields that no daemon of Podstream reads.
func (c *Config) Ignored() []string { return c.of(unused) }

// Podconfigd returns the set fields that podconfigd reads.
func (c *Config) Podconfigd() []string { return c.of(podconfigd) }

// Podexecd returns the set fields that podexecd reads.
func (c *Config) Podexecd() []string { return c.of(podexecd) }

// AllOfPodexecd returns the fields that podexecd reads, set or not.
func AllOfPodexecd() []string {
	var fields []string
	for _, f := range owners {
		if f.owner == podexecd {
			fields = append(fields, f.field)
		}
	}
	return fields
}

func (c *Config) of(who owner) []string {
	var fields []string
	for _, name := range c.Set() {
		if ownerOf(name) == who {
			fields = append(fields, name)
		}
	}
	return fields
}

// ownerOf returns zero for a name that isn't a field, and for kind and apiVersion.
func ownerOf(field string) owner {
	for _, f := range owners {
		if f.field == field {
			return f.owner
		}
	}
	return 0
}
