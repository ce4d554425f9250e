package redact

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// table decides on every field of a pod that can hold text. A field is redacted if users put secrets there, or if it
// is output of containers, runtimes or drivers, which may quote them. Names, references, places, choices and labels
// (by which any user may select) are shown.
var table = []decision{
	// The object.
	show[metav1.TypeMeta]("Kind", "APIVersion"),
	show[metav1.ObjectMeta]("Name", "GenerateName", "Namespace", "SelfLink", "UID", "Labels", "Finalizers"),
	// These change with every write, so they would reveal a change of a redacted value.
	redact[metav1.ObjectMeta]("ResourceVersion", drop),
	redact[metav1.ObjectMeta]("Generation", drop),
	redact[metav1.ObjectMeta]("ManagedFields", drop),
	redact[metav1.ObjectMeta]("Annotations", hideDocuments), // kubectl keeps whole manifests there, with the values that are redacted below
	show[metav1.OwnerReference]("APIVersion", "Kind", "Name", "UID"),
	show[metav1.LabelSelector]("MatchLabels"),
	show[metav1.LabelSelectorRequirement]("Key", "Operator", "Values"),

	// The pod: choices, and names of other objects.
	show[v1.PodSpec]("RestartPolicy", "DNSPolicy", "NodeSelector", "ServiceAccountName", "DeprecatedServiceAccount", "NodeName",
		"Hostname", "Subdomain", "SchedulerName", "PriorityClassName", "RuntimeClassName", "PreemptionPolicy", "Overhead",
		"HostnameOverride"),
	show[v1.LocalObjectReference]("Name"),
	show[v1.TypedLocalObjectReference]("APIGroup", "Kind", "Name"),
	show[v1.TypedObjectReference]("APIGroup", "Kind", "Name", "Namespace"),
	show[v1.NodeSelectorRequirement]("Key", "Operator", "Values"),
	show[v1.PodAffinityTerm]("Namespaces", "TopologyKey", "MatchLabelKeys", "MismatchLabelKeys"),
	show[v1.TopologySpreadConstraint]("TopologyKey", "WhenUnsatisfiable", "NodeAffinityPolicy", "NodeTaintsPolicy",
		"MatchLabelKeys"),
	show[v1.Toleration]("Key", "Operator", "Value", "Effect"),
	show[v1.HostAlias]("IP", "Hostnames"),
	show[v1.PodDNSConfig]("Nameservers", "Searches"),
	show[v1.PodDNSConfigOption]("Name", "Value"), // resolver options hold no secrets
	show[v1.PodReadinessGate]("ConditionType"),
	show[v1.PodSchedulingGate]("Name"),
	show[v1.PodSchedulingGroup]("PodGroupName"),
	show[v1.PodResourceClaim]("Name", "ResourceClaimName", "ResourceClaimTemplateName"),
	show[v1.PodOS]("Name"),
	show[v1.EvictionResponder]("Name"),
	show[v1.PodSecurityContext]("SupplementalGroupsPolicy", "FSGroupChangePolicy", "SELinuxChangePolicy"),
	show[v1.Sysctl]("Name", "Value"), // every process on the node can read the kernel's settings

	// Containers. Their three kinds have two types.
	show[v1.Container]("Name", "Image", "WorkingDir", "RestartPolicy", "TerminationMessagePath", "TerminationMessagePolicy",
		"ImagePullPolicy"),
	redact[v1.Container]("Command", hideArguments), // users put arguments there as often as in args
	redact[v1.Container]("Args", hide),             // --password=
	show[v1.EphemeralContainerCommon]("Name", "Image", "WorkingDir", "RestartPolicy", "TerminationMessagePath",
		"TerminationMessagePolicy", "ImagePullPolicy"),
	redact[v1.EphemeralContainerCommon]("Command", hideArguments), // as Container's
	redact[v1.EphemeralContainerCommon]("Args", hide),             // as Container's
	show[v1.EphemeralContainer]("TargetContainerName"),
	show[v1.ContainerPort]("Name", "Protocol", "HostIP"),
	show[v1.EnvVar]("Name"),
	redact[v1.EnvVar]("Value", hide), // PASSWORD
	show[v1.EnvFromSource]("Prefix"),
	show[v1.ConfigMapKeySelector]("Key"),
	show[v1.SecretKeySelector]("Key"),
	show[v1.FileKeySelector]("VolumeName", "Path", "Key"),
	show[v1.ObjectFieldSelector]("APIVersion", "FieldPath"),
	show[v1.ResourceFieldSelector]("ContainerName", "Resource"),
	show[v1.ResourceRequirements]("Limits", "Requests"),
	show[v1.ResourceClaim]("Name", "Request"),
	show[v1.ContainerResizePolicy]("ResourceName", "RestartPolicy"),
	show[v1.ContainerRestartRule]("Action"),
	show[v1.ContainerRestartRuleOnExitCodes]("Operator"),
	show[v1.VolumeMount]("Name", "RecursiveReadOnly", "MountPath", "SubPath", "MountPropagation", "SubPathExpr",
		"BindMountOptions"), // flags as noexec; a bind mount takes no login
	show[v1.VolumeDevice]("Name", "DevicePath"),

	// Probes and hooks.
	redact[v1.ExecAction]("Command", hideArguments), // redis-cli -a
	redact[v1.HTTPGetAction]("Path", hideInURL),     // ?token=
	redact[v1.HTTPGetAction]("Host", hideLogin),     // it becomes a part of a URL, in which user:password@host works
	show[v1.HTTPGetAction]("Scheme", "Protocol"),
	show[v1.HTTPHeader]("Name"),
	redact[v1.HTTPHeader]("Value", hide), // Authorization
	show[v1.TCPSocketAction]("Host"),
	show[v1.GRPCAction]("Service", "Mode"),
	show[v1.Lifecycle]("StopSignal"),

	// Security settings: rules and identities.
	show[v1.SecurityContext]("ProcMount"),
	show[v1.Capabilities]("Add", "Drop"),
	show[v1.SELinuxOptions]("User", "Role", "Type", "Level"),
	show[v1.SeccompProfile]("Type", "LocalhostProfile"),
	show[v1.AppArmorProfile]("Type", "LocalhostProfile"),
	show[v1.WindowsSecurityContextOptions]("GMSACredentialSpecName", "RunAsUserName"),
	redact[v1.WindowsSecurityContextOptions]("GMSACredentialSpec", hide), // a credential spec in full

	// Volumes whose content is elsewhere: names, servers and places.
	show[v1.Volume]("Name"),
	show[v1.HostPathVolumeSource]("Path", "Type"),
	show[v1.EmptyDirVolumeSource]("Medium"),
	show[v1.SecretVolumeSource]("SecretName"),
	show[v1.KeyToPath]("Key", "Path"),
	show[v1.DownwardAPIVolumeFile]("Path"),
	show[v1.ServiceAccountTokenProjection]("Audience", "Path"),
	show[v1.ClusterTrustBundleProjection]("Name", "SignerName", "Path"),
	show[v1.PodCertificateProjection]("SignerName", "KeyType", "CredentialBundlePath", "KeyPath", "CertificateChainPath"),
	show[v1.ImageVolumeSource]("Reference", "PullPolicy"),
	show[v1.PersistentVolumeClaimVolumeSource]("ClaimName"),
	show[v1.PersistentVolumeClaimSpec]("AccessModes", "VolumeName", "StorageClassName", "VolumeMode", "VolumeAttributesClassName"),
	show[v1.VolumeResourceRequirements]("Limits", "Requests"),
	show[v1.NFSVolumeSource]("Server", "Path"),
	show[v1.ISCSIVolumeSource]("TargetPortal", "IQN", "ISCSIInterface", "FSType", "Portals", "InitiatorName"), // no login in these
	show[v1.FCVolumeSource]("TargetWWNs", "FSType", "WWIDs"),
	show[v1.GlusterfsVolumeSource]("EndpointsName", "Path"),
	show[v1.RBDVolumeSource]("CephMonitors", "RBDImage", "FSType", "RBDPool", "Keyring"), // the keyring's path
	show[v1.CephFSVolumeSource]("Monitors", "Path", "SecretFile"),                        // the secret's path
	show[v1.GCEPersistentDiskVolumeSource]("PDName", "FSType"),
	show[v1.AWSElasticBlockStoreVolumeSource]("VolumeID", "FSType"),
	show[v1.CinderVolumeSource]("VolumeID", "FSType"),
	show[v1.FlockerVolumeSource]("DatasetName", "DatasetUUID"),
	show[v1.VsphereVirtualDiskVolumeSource]("VolumePath", "FSType", "StoragePolicyName", "StoragePolicyID"),
	show[v1.PhotonPersistentDiskVolumeSource]("PdID", "FSType"),
	show[v1.PortworxVolumeSource]("VolumeID", "FSType"),
	show[v1.StorageOSVolumeSource]("VolumeName", "VolumeNamespace", "FSType"),
	show[v1.AzureFileVolumeSource]("SecretName", "ShareName"),
	show[v1.AzureDiskVolumeSource]("DiskName", "CachingMode", "FSType", "Kind"),
	show[v1.ScaleIOVolumeSource]("System", "ProtectionDomain", "StoragePool", "StorageMode", "VolumeName", "FSType"),
	show[v1.QuobyteVolumeSource]("Registry", "Volume", "Group", "Tenant"),
	show[v1.GitRepoVolumeSource]("Revision", "Directory"),
	show[v1.FlexVolumeSource]("Driver", "FSType"),
	show[v1.CSIVolumeSource]("Driver", "FSType"),

	// Further settings of volumes.
	redact[v1.CSIVolumeSource]("VolumeAttributes", hide),         // a driver's own settings, logins among them
	redact[v1.FlexVolumeSource]("Options", hide),                 // likewise
	redact[v1.PodCertificateProjection]("UserAnnotations", hide), // settings of the signer, perhaps a join token
	redact[v1.GitRepoVolumeSource]("Repository", hideInURL),      // https://user:token@host/
	redact[v1.AzureDiskVolumeSource]("DataDiskURI", hideInURL),   // a shared access signature is its query
	redact[v1.ScaleIOVolumeSource]("Gateway", hideInURL),         // a URL, so it may have a login
	redact[v1.RBDVolumeSource]("RadosUser", hide),                // half of a login
	redact[v1.CephFSVolumeSource]("User", hide),                  // likewise
	redact[v1.QuobyteVolumeSource]("User", hide),                 // likewise

	// The status. The texts of Kubernetes on a pod as a whole contain only objects and amounts.
	show[v1.PodStatus]("Phase", "Message", "Reason", "NominatedNodeName", "HostIP", "PodIP", "QOSClass", "Resize",
		"AllocatedResources"),
	redact[v1.PodStatus]("ObservedGeneration", drop), // as the object's generation
	show[v1.PodCondition]("Type", "Status", "Reason", "Message"),
	redact[v1.PodCondition]("ObservedGeneration", drop), // likewise
	show[v1.HostIP]("IP"),
	show[v1.PodIP]("IP"),
	show[v1.ContainerStatus]("Name", "Image", "ImageID", "ContainerID", "AllocatedResources", "StopSignal"),
	show[v1.ContainerStateWaiting]("Reason"),
	redact[v1.ContainerStateWaiting]("Message", hide), // a runtime's error quotes the command; a failed hook's error quotes its output
	show[v1.ContainerStateTerminated]("Reason", "ContainerID"),
	redact[v1.ContainerStateTerminated]("Message", hide), // output of the container, perhaps the end of its log
	show[v1.VolumeMountStatus]("Name", "MountPath", "RecursiveReadOnly"),
	show[v1.ImageVolumeStatus]("ImageRef"),
	show[v1.ResourceStatus]("Name"),
	show[v1.ResourceHealth]("ResourceID", "Health"),
	redact[v1.ResourceHealth]("Message", hide), // a device plugin's text
	show[v1.PodVolumeHealth]("Name"),
	show[v1.VolumeHealthCondition]("Status", "Reason"),
	redact[v1.VolumeHealthCondition]("Message", hide), // a driver's text
	show[v1.PodResourceClaimStatus]("Name", "ResourceClaimName"),
	show[v1.PodExtendedResourceClaimStatus]("ResourceClaimName"),
	show[v1.ContainerExtendedResourceRequest]("ContainerName", "ResourceName", "RequestName"),
	show[v1.NodeAllocatableResourceClaimStatus]("ResourceClaimName", "Containers"),
	show[v1.NodeAllocatableMappedResources]("Name"),
	show[v1.NodeAllocatableOverheadResources]("Name"),
}
