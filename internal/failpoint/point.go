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
	// BeforeSetUp and AfterSetUp are around the making of a pod's volumes.
	BeforeSetUp Point = "volume/set-up/before"
	AfterSetUp  Point = "volume/set-up/after"
	// BeforeTearDown is before a pod's volumes are unmounted, Unmounted is when they are and their directory is there, AfterTearDown is
	// when that is gone too.
	BeforeTearDown Point = "volume/tear-down/before"
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

// BeforeCall is the point before podexecd makes a call to the runtime, and AfterCall the one after its answer. call is the name in CRI.
func BeforeCall(call string) Point { return Point("cri/" + call + "/before") }

// AfterCall is the point after the answer to a call to the runtime.
func AfterCall(call string) Point { return Point("cri/" + call + "/after") }

// ExecPoints are the points of podexecd, in the order in which a pod's life comes by them.
func ExecPoints() []Point {
	points := []Point{BeforeApply, AfterApply, BeforeStore, AfterStore, BeforeReport, AfterReport, BeforeSetUp, AfterSetUp, BeforeLogLink, AfterLogLink}
	for _, call := range calls {
		points = append(points, BeforeCall(call), AfterCall(call))
	}
	return append(points, BeforeLogRemoval, LogLinksGone, AfterLogRemoval, BeforeTearDown, Unmounted, AfterTearDown)
}

// ConfigPoints are the points of podconfigd.
func ConfigPoints() []Point { return []Point{BeforeCommit, AfterCommit, BeforePublish} }

// Points are all points.
func Points() []Point { return append(ExecPoints(), ConfigPoints()...) }
