package failpoint

// Point names one place to die at.
type Point string

// DieAt is the environment variable that says where a process dies, as POINT or POINT:N, in builds with the tag failpoints.
const DieAt = "PODSTREAM_DIE_AT"

// The points of podexecd that aren't calls to the runtime.
const (
	// BeforeApply is when an event of the stream has been taken by the agent, and its store doesn't know of it; AfterApply is when the
	// store has it in memory.
	BeforeApply Point = "stream/apply/before"
	AfterApply  Point = "stream/apply/after"
	// BeforeStore and AfterStore are around a commit of podexecd's store.
	BeforeStore Point = "store/commit/before"
	AfterStore  Point = "store/commit/after"
	// BeforeSetUp and AfterSetUp are around the making of a pod's volumes. TmpfsMounted is when one in memory has been mounted and is
	// empty, ContentWritten is when a new content is in a volume and nobody sees it yet.
	BeforeSetUp    Point = "volume/set-up/before"
	TmpfsMounted   Point = "volume/set-up/tmpfs-mounted"
	ContentWritten Point = "volume/set-up/content-written"
	AfterSetUp     Point = "volume/set-up/after"
	// CgroupMade is when a pod's cgroup has been made and has no limits yet.
	CgroupMade Point = "cgroup/set-up/made"
	// SubPathBound is when a part of a volume has been bound for a container that isn't made yet, HostsWritten is when that container's
	// /etc/hosts has been.
	SubPathBound Point = "volume/sub-path/bound"
	HostsWritten Point = "hosts/written"
	// BeforeCgroupRemoval is before a pod's cgroup is removed, CgroupPartGone is when it is in the first of the kernel's hierarchies,
	// AfterCgroupRemoval is when it is in all.
	BeforeCgroupRemoval Point = "cgroup/remove/before"
	CgroupPartGone      Point = "cgroup/remove/part-gone"
	AfterCgroupRemoval  Point = "cgroup/remove/after"
	// BeforeTearDown is before a pod's volumes are unmounted, SubPathsGone is when parts of them aren't mounted any more, PluginsDone is
	// when each kind of volume has let go of its own, Unmounted is when nothing is mounted and their directory is there, AfterTearDown
	// is when that is gone too.
	BeforeTearDown Point = "volume/tear-down/before"
	SubPathsGone   Point = "volume/tear-down/sub-paths-gone"
	PluginsDone    Point = "volume/tear-down/plugins-done"
	Unmounted      Point = "volume/tear-down/unmounted"
	AfterTearDown  Point = "volume/tear-down/after"
	// BeforeLogLink and AfterLogLink are around the link to a new container's log.
	BeforeLogLink Point = "log/link/before"
	AfterLogLink  Point = "log/link/after"
	// BeforeLogRemoval is before a pod's logs are removed, LogLinksGone is when the links to them are, AfterLogRemoval is when all is.
	BeforeLogRemoval Point = "log/remove/before"
	LogLinksGone     Point = "log/remove/links-gone"
	AfterLogRemoval  Point = "log/remove/after"
	// BeforeReport and AfterReport are around ReportApplied.
	BeforeReport Point = "report/before"
	AfterReport  Point = "report/after"
)

// The points of podconfigd.
const (
	// BeforeCommit is when a revision has been merged and the store doesn't have it, AfterCommit is when it has, BeforePublish is just
	// before consumers see it.
	BeforeCommit  Point = "revision/commit/before"
	AfterCommit   Point = "revision/commit/after"
	BeforePublish Point = "revision/publish/before"
)

// calls are those to the runtime that change something.
var calls = []string{
	"RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox",
	"PullImage", "ExecSync",
}

// requests are those to the API server by which others learn of the node and its pods.
var requests = []string{"CreateNode", "CreatePod", "PatchPodStatus", "DeletePod"}

// BeforeCall is the point before podexecd makes a call to the runtime, and AfterCall the one after its answer. call is the name in CRI.
func BeforeCall(call string) Point { return Point("cri/" + call + "/before") }

// AfterCall is the point after the answer to a call to the runtime.
func AfterCall(call string) Point { return Point("cri/" + call + "/after") }

// BeforeRequest is the point before podexecd makes a request to the API server, and AfterRequest the one after its answer.
func BeforeRequest(request string) Point { return Point("api/" + request + "/before") }

// AfterRequest is the point after the API server's answer to a request.
func AfterRequest(request string) Point { return Point("api/" + request + "/after") }

// ExecPoints are the points of podexecd, in the order in which a pod's life comes by them.
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

// SetUpPoints are those of podexecd at which something has just been made for a pod on the node, or is about to be.
func SetUpPoints() []Point {
	return []Point{BeforeSetUp, TmpfsMounted, ContentWritten, AfterSetUp, CgroupMade, SubPathBound, HostsWritten}
}

// ConfigPoints are the points of podconfigd.
func ConfigPoints() []Point { return []Point{BeforeCommit, AfterCommit, BeforePublish} }

// Points are all points of a node that stands alone.
func Points() []Point { return append(ExecPoints(), ConfigPoints()...) }

// ClusterPoints are those that podexecd passes only as a node of a cluster.
func ClusterPoints() []Point {
	var points []Point
	for _, request := range requests {
		points = append(points, BeforeRequest(request), AfterRequest(request))
	}
	return points
}
