package failpoint

// Point is the name of a crash point.
type Point string

// DieAt is the environment variable with a process's crash point, as POINT or POINT:N, in builds with the tag
// failpoints.
const DieAt = "PODSTREAM_DIE_AT"

// The points of podexecd that aren't calls to the runtime.
const (
	// BeforeApply is after the agent has received an event of the stream, and before its store has it; AfterApply is
	// when the store has it in memory.
	BeforeApply Point = "stream/apply/before"
	AfterApply  Point = "stream/apply/after"
	// BeforeStore and AfterStore are around a commit of podexecd's store.
	BeforeStore Point = "store/commit/before"
	AfterStore  Point = "store/commit/after"
	// BeforeSetUp and AfterSetUp are around the setup of a pod's volumes. TmpfsMounted is when a volume in memory has
	// been mounted and is empty, ContentWritten when new content is written to a volume and isn't visible yet.
	BeforeSetUp    Point = "volume/set-up/before"
	TmpfsMounted   Point = "volume/set-up/tmpfs-mounted"
	ContentWritten Point = "volume/set-up/content-written"
	AfterSetUp     Point = "volume/set-up/after"
	// CgroupMade is when a pod's cgroup exists and has no limits yet.
	CgroupMade Point = "cgroup/set-up/made"
	// SubPathBound is when a part of a volume has been bound for a container that isn't made yet, HostsWritten when
	// that container's /etc/hosts has been written.
	SubPathBound Point = "volume/sub-path/bound"
	HostsWritten Point = "hosts/written"
	// BeforeCgroupRemoval is before a pod's cgroup is removed, CgroupPartGone after its removal from the first of the
	// kernel's hierarchies, AfterCgroupRemoval after its removal from all.
	BeforeCgroupRemoval Point = "cgroup/remove/before"
	CgroupPartGone      Point = "cgroup/remove/part-gone"
	AfterCgroupRemoval  Point = "cgroup/remove/after"
	// BeforeTearDown is before a pod's volumes are unmounted, SubPathsGone after parts of them are unmounted,
	// PluginsDone after each volume plugin's teardown, Unmounted when nothing is mounted and their directory exists,
	// AfterTearDown after its removal.
	BeforeTearDown Point = "volume/tear-down/before"
	SubPathsGone   Point = "volume/tear-down/sub-paths-gone"
	PluginsDone    Point = "volume/tear-down/plugins-done"
	Unmounted      Point = "volume/tear-down/unmounted"
	AfterTearDown  Point = "volume/tear-down/after"
	// BeforeLogLink and AfterLogLink are around making the link to a new container's log.
	BeforeLogLink Point = "log/link/before"
	AfterLogLink  Point = "log/link/after"
	// BeforeLogRemoval is before a pod's logs are removed, LogLinksGone after the removal of the links to them,
	// AfterLogRemoval after all.
	BeforeLogRemoval Point = "log/remove/before"
	LogLinksGone     Point = "log/remove/links-gone"
	AfterLogRemoval  Point = "log/remove/after"
	// BeforeLogRename is before a container's log is renamed to be rotated, LogRenamed when the runtime still writes to the
	// renamed one, LogReopened when it has a new one.
	BeforeLogRename Point = "log/rotate/before"
	LogRenamed      Point = "log/rotate/renamed"
	LogReopened     Point = "log/rotate/reopened"
	// BeforeLogCompression is before a rotated log is compressed, LogCompressed when the temporary file is complete,
	// CompressedLogNamed when that has its name and the log isn't removed yet.
	BeforeLogCompression Point = "log/compress/before"
	LogCompressed        Point = "log/compress/written"
	CompressedLogNamed   Point = "log/compress/named"
	// RestartStored is when a request to restart containers is on disk, and neither its caller nor the pod's worker has it.
	RestartStored Point = "restart/stored"
	// BeforeReport and AfterReport are around ReportApplied.
	BeforeReport Point = "report/before"
	AfterReport  Point = "report/after"
)

// The points of podconfigd.
const (
	// BeforeCommit is when a revision has been merged and the store doesn't have it, AfterCommit when the store has
	// it, BeforePublish just before consumers see it.
	BeforeCommit  Point = "revision/commit/before"
	AfterCommit   Point = "revision/commit/after"
	BeforePublish Point = "revision/publish/before"
	// AfterAppliedStore is when a write is stored, and neither merged nor published.
	AfterAppliedStore Point = "applied/store/after"
)

// calls are the calls to the runtime that change something.
var calls = []string{
	"RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox",
	"PullImage", "ExecSync",
}

// requests are the requests to the API server that publish the node or its pods.
var requests = []string{"CreateNode", "CreatePod", "PatchPodStatus", "DeletePod"}

// BeforeCall is the point before podexecd makes a call to the runtime, and AfterCall the one after its answer. call
// is the name in CRI.
func BeforeCall(call string) Point { return Point("cri/" + call + "/before") }

// AfterCall is the point after the answer to a call to the runtime.
func AfterCall(call string) Point { return Point("cri/" + call + "/after") }

// BeforeRequest is the point before podexecd makes a request to the API server, and AfterRequest the one after its
// answer.
func BeforeRequest(request string) Point { return Point("api/" + request + "/before") }

// AfterRequest is the point after the API server's answer to a request.
func AfterRequest(request string) Point { return Point("api/" + request + "/after") }

// volumeOperations are the operations of a persistent volume: package storage's kinds.
var volumeOperations = []string{
	"mark-in-use", "wait-attached", "stage", "publish", "republish", "expand", "unpublish", "unstage", "drop-in-use", "save",
}

// BeforeVolume is the point before an operation of a persistent volume, when its record doesn't have the intent.
func BeforeVolume(operation string) Point { return Point("storage/" + operation + "/before") }

// VolumeRecorded is the point when the record has the intent, before the call.
func VolumeRecorded(operation string) Point { return Point("storage/" + operation + "/recorded") }

// VolumeAnswered is the point when the call has an answer that isn't recorded.
func VolumeAnswered(operation string) Point { return Point("storage/" + operation + "/answered") }

// AfterVolume is the point when the answer is recorded, and the pod's worker doesn't have it yet.
func AfterVolume(operation string) Point { return Point("storage/" + operation + "/after") }

// StoragePoints are podexecd's points in the operations of persistent volumes.
func StoragePoints() []Point {
	var points []Point
	for _, op := range volumeOperations {
		points = append(points, BeforeVolume(op), VolumeRecorded(op), VolumeAnswered(op), AfterVolume(op))
	}
	return points
}

// ExecPoints are the points of podexecd, in the order in which a pod passes them.
func ExecPoints() []Point {
	points := []Point{BeforeApply, AfterApply, BeforeStore, AfterStore, BeforeReport, AfterReport}
	points = append(points, SetUpPoints()...)
	points = append(points, BeforeLogLink, AfterLogLink)
	for _, call := range calls {
		points = append(points, BeforeCall(call), AfterCall(call))
	}
	return append(points, BeforeLogRemoval, LogLinksGone, AfterLogRemoval, BeforeCgroupRemoval, CgroupPartGone, AfterCgroupRemoval,
		BeforeTearDown, SubPathsGone, PluginsDone, Unmounted, AfterTearDown)
}

// RotationPoints are podexecd's points in the rotation of a container's log.
func RotationPoints() []Point {
	return []Point{BeforeLogRename, LogRenamed, LogReopened, BeforeLogCompression, LogCompressed, CompressedLogNamed}
}

// RestartPoints are podexecd's points in a requested restart of a container, besides the calls to the runtime.
func RestartPoints() []Point { return []Point{RestartStored} }

// SetUpPoints are podexecd's points just before or after making an object for a pod on the node.
func SetUpPoints() []Point {
	return []Point{BeforeSetUp, TmpfsMounted, ContentWritten, AfterSetUp, CgroupMade, SubPathBound, HostsWritten}
}

// ConfigPoints are the points of podconfigd.
func ConfigPoints() []Point { return []Point{BeforeCommit, AfterCommit, BeforePublish} }

// WritePoints are the points of podconfigd that only writes pass.
func WritePoints() []Point { return []Point{AfterAppliedStore} }

// Points are all points of a standalone node.
func Points() []Point { return append(ExecPoints(), ConfigPoints()...) }

// ClusterPoints are the points that podexecd passes only as a node of a cluster.
func ClusterPoints() []Point {
	var points []Point
	for _, request := range requests {
		points = append(points, BeforeRequest(request), AfterRequest(request))
	}
	return points
}
