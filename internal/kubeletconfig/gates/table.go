package gates

import "k8s.io/component-base/featuregate"

// fate is what podexecd makes of a gate.
type fate int

const (
	// obeyed: the feature is on or off as the gate says.
	obeyed fate = iota + 1
	// always: podexecd has the feature, on or off as the objects and settings say.
	always
	// never: podexecd doesn't have the feature.
	never
)

// The gates that podexecd obeys.
const (
	ComponentFlagz                                   = "ComponentFlagz"
	ComponentStatusz                                 = "ComponentStatusz"
	CustomCPUCFSQuotaPeriod                          = "CustomCPUCFSQuotaPeriod"
	GracefulNodeShutdown                             = "GracefulNodeShutdown"
	GracefulNodeShutdownBasedOnPodPriority           = "GracefulNodeShutdownBasedOnPodPriority"
	KubeletCrashLoopBackOffMax                       = "KubeletCrashLoopBackOffMax"
	KubeletEnsureSecretPulledImages                  = "KubeletEnsureSecretPulledImages"
	KubeletServiceAccountTokenForCredentialProviders = "KubeletServiceAccountTokenForCredentialProviders"
	MemoryQoS                                        = "MemoryQoS"
	ReduceDefaultCrashLoopBackOffDecay               = "ReduceDefaultCrashLoopBackOffDecay"
	RotateKubeletServerCertificate                   = "RotateKubeletServerCertificate"
	SELinuxMount                                     = "SELinuxMount"
	UserNamespacesHostNetworkSupport                 = "UserNamespacesHostNetworkSupport"
)

var (
	alpha      = featuregate.FeatureSpec{PreRelease: featuregate.Alpha}
	betaOff    = featuregate.FeatureSpec{PreRelease: featuregate.Beta}
	beta       = featuregate.FeatureSpec{PreRelease: featuregate.Beta, Default: true}
	stable     = featuregate.FeatureSpec{PreRelease: featuregate.GA, Default: true}
	locked     = featuregate.FeatureSpec{PreRelease: featuregate.GA, Default: true, LockToDefault: true}
	deprecated = featuregate.FeatureSpec{PreRelease: featuregate.Deprecated}
	retained   = featuregate.FeatureSpec{PreRelease: featuregate.Deprecated, Default: true}
	lockedOff  = featuregate.FeatureSpec{PreRelease: featuregate.Deprecated, LockToDefault: true}
	lockedOn   = featuregate.FeatureSpec{PreRelease: featuregate.Deprecated, Default: true, LockToDefault: true}
)

// gate is one of the kubelet's gates.
type gate struct {
	name featuregate.Feature
	spec featuregate.FeatureSpec
	fate fate
}

// table has the kubelet's gates by name, except those of Windows.
var table = []gate{
	{"AllowDNSOnlyNodeCSR", deprecated, never},
	{"AtomicWriteVolumeUserFields", alpha, never},
	{"CPUManagerPolicyAlphaOptions", alpha, never},
	{"CPUManagerPolicyBetaOptions", beta, never},
	{"CRIListStreaming", alpha, never},
	{"CSIVolumeHealth", alpha, never},
	{"ChangeContainerStatusOnKubeletRestart", deprecated, never},
	{"ClusterTrustBundleProjection", stable, always},
	{ComponentFlagz, beta, obeyed},
	{ComponentStatusz, beta, obeyed},
	{"ContainerCheckpoint", beta, always},
	{"ContainerRestartRules", beta, always},
	{"ContainerStopSignals", alpha, always},
	{CustomCPUCFSQuotaPeriod, stable, obeyed},
	{"DRAExtendedResource", locked, never},
	{"DRANodeAllocatableResources", alpha, never},
	{"DRAOptionalNodeOperations", alpha, never},
	{"DRAWorkloadResourceClaims", betaOff, never},
	{"DefaultPodSysctls", alpha, never},
	{"DisableCPUQuotaWithExclusiveCPUs", lockedOn, never},
	{"DisableNodeKubeProxyVersion", lockedOn, always},
	{"DynamicResourceAllocation", locked, never},
	{"EmptyDirVolumeMode", alpha, never},
	{"EnvFiles", beta, always},
	{"EventedPLEG", alpha, always},
	{"ExtendWebSocketsToKubelet", beta, always},
	{"GRPCContainerProbeTLS", alpha, never},
	{"GitRepoVolumeDriver", lockedOff, never},
	{GracefulNodeShutdown, beta, obeyed},
	{GracefulNodeShutdownBasedOnPodPriority, beta, obeyed},
	{"H2CContainerProbe", alpha, never},
	{"HostnameOverride", locked, always},
	{"HugepageAwareEviction", beta, always},
	{"ImageMaximumGCAge", locked, always},
	{"ImageVolume", locked, always},
	{"ImageVolumeWithDigest", alpha, never},
	{"InPlacePodLevelResourcesVerticalScaling", beta, always},
	{"InPlacePodVerticalScaling", locked, always},
	{"InPlacePodVerticalScalingExclusiveCPUs", alpha, never},
	{"InPlacePodVerticalScalingExclusiveMemory", alpha, never},
	{"InPlacePodVerticalScalingInitContainers", locked, always},
	{"InPlacePodVerticalScalingMemoryBackedVolumes", alpha, never},
	{"InPlacePodVerticalScalingSchedulerPreemption", alpha, never},
	{"KubeletAllocatedPodsEndpoint", alpha, never},
	{KubeletCrashLoopBackOffMax, beta, obeyed},
	{KubeletEnsureSecretPulledImages, beta, obeyed},
	{"KubeletFineGrainedAuthz", locked, always},
	{"KubeletInUserNamespace", beta, never},
	{"KubeletPSI", locked, always},
	{"KubeletPodResourcesDynamicResources", locked, never},
	{"KubeletPodResourcesGet", locked, never},
	{"KubeletPodResourcesListUseActivePods", retained, never},
	{"KubeletRegistrationGetOnExistsOnly", deprecated, never},
	{"KubeletSeparateDiskGC", beta, always},
	{KubeletServiceAccountTokenForCredentialProviders, beta, obeyed},
	{"LocalStorageCapacityIsolationFSQuotaMonitoring", betaOff, never},
	{MemoryQoS, beta, obeyed},
	{"MutableCSINodeAllocatableCount", locked, never},
	{"NodeDeclaredFeatures", locked, always},
	{"NodeLogQuery", locked, always},
	{"NodeSwap", locked, always},
	{"PLEGOnDemandRelist", locked, always},
	{"PodAndContainerStatsFromCRI", betaOff, never},
	{"PodCertificateRequest", stable, never},
	{"PodLevelResourceManagers", betaOff, never},
	{"PodLevelResources", beta, always},
	{"PodLogsQuerySplitStreams", alpha, always},
	{"PodReadyToStartContainersCondition", locked, always},
	{"PodsAPI", beta, always},
	{"QOSReserved", alpha, never},
	{"RecoverVolumeExpansionFailure", locked, never},
	{"RecursiveReadOnlyMounts", locked, always},
	{ReduceDefaultCrashLoopBackOffDecay, alpha, obeyed},
	{"ReloadKubeletClientCAFile", beta, always},
	{"ReloadKubeletServerCertificateFile", beta, always},
	{"ResourceHealthStatus", beta, never},
	{"ResourceHealthStatusMessage", beta, never},
	{"RestartAllContainersOnContainerExits", beta, always},
	{RotateKubeletServerCertificate, beta, obeyed},
	{"RuntimeClassInImageCriApi", alpha, never},
	{"SELinuxChangePolicy", locked, always},
	{SELinuxMount, stable, obeyed},
	{"SELinuxMountReadWriteOncePod", locked, always},
	{"SupplementalGroupsPolicy", locked, always},
	{"TaintTolerationComparisonOperators", alpha, never},
	{"TopologyManagerPolicyAlphaOptions", alpha, never},
	{"TopologyManagerPolicyBetaOptions", beta, never},
	{"TopologyManagerPolicyOptions", locked, never},
	{UserNamespacesHostNetworkSupport, alpha, obeyed},
	{"UserNamespacesSupport", locked, always},
}
