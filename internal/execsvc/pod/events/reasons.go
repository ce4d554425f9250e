package events

// The types of events.
const (
	Normal  = "Normal"
	Warning = "Warning"
)

// The reasons, as in the kubelet (pkg/kubelet/events/event.go).
const (
	// Containers.
	CreatedContainer     = "Created"
	StartedContainer     = "Started"
	FailedToStart        = "Failed"
	KillingContainer     = "Killing"
	BackOffStart         = "BackOff"
	ExceededGracePeriod  = "ExceededGracePeriod"
	FailedPostStartHook  = "FailedPostStartHook"
	FailedPreStopHook    = "FailedPreStopHook"
	ContainerUnhealthy   = "Unhealthy"
	ContainerProbeWarned = "ProbeWarning"

	// Images.
	PullingImage            = "Pulling"
	PulledImage             = "Pulled"
	FailedToPull            = "Failed"
	FailedToInspect         = "InspectFailed"
	ErrImageNeverPullPolicy = "ErrImageNeverPull"
	BackOffPull             = "BackOff"
	FailedPullSecret        = "FailedToRetrieveImagePullSecret"

	// Pods.
	FailedToKillPod        = "FailedKillPod"
	FailedSync             = "FailedSync"
	FailedCreatePodSandbox = "FailedCreatePodSandBox"
	SandboxChanged         = "SandboxChanged"
	FailedMountVolume      = "FailedMount"
	FailedMapVolume        = "FailedMapVolume"
	FailedPrepareResources = "FailedPrepareDynamicResources"
	FailedMakePodDirs      = "Failed"
	FailedPodSandboxStatus = "FailedPodSandBoxStatus"
	DeadlineExceeded       = "DeadlineExceeded"
	Evicted                = "Evicted"
	Preempting             = "Preempting"
	NetworkNotReady        = "NetworkNotReady"
	RestartedAllContainers = "RestartingAllContainers"
	ResizeDeferred         = "ResizeDeferred"
	ResizeInfeasible       = "ResizeInfeasible"
	ResizeStarted          = "ResizeStarted"
	ResizeCompleted        = "ResizeCompleted"
	ResizeError            = "ResizeError"

	// The size of a claim's volume.
	VolumeResizeFailed         = "VolumeResizeFailed"
	FileSystemResizeFailed     = "FileSystemResizeFailed"
	FileSystemResizeSuccessful = "FileSystemResizeSuccessful"

	// RemovalHeld is the reason for a pod that runs on although the config stream removed it, as more pods were removed
	// than --max-removals-per-minute allows, and RemovalDropped for one that is in the stream again. The kubelet has none.
	RemovalHeld    = "RemovalHeld"
	RemovalDropped = "RemovalDropped"

	// FailedNodeDeclaredFeaturesCheck is the reason for an update that needs features which the node doesn't declare.
	FailedNodeDeclaredFeaturesCheck = "FailedNodeDeclaredFeaturesCheck"
	// FailedCreatePodContainer is the reason for a pod whose cgroup can't be created.
	FailedCreatePodContainer        = "FailedCreatePodContainer"
	InvalidEnvironmentVariableNames = "InvalidEnvironmentVariableNames"

	// The Node. Those of its conditions are in package nodestatus, of images in imagegc.
	StartingKubelet                   = "Starting"
	NodeShutdown                      = "Shutdown"
	CgroupV1                          = "CgroupV1"
	PossibleMemoryBackedVolumesOnDisk = "PossibleMemoryBackedVolumesOnDisk"
	ContainerGCFailed                 = "ContainerGCFailed"
	FailedValidation                  = "FailedValidation"
)
