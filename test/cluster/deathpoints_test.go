package cluster

import (
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/test/csidriver/fault"
)

// victim is a program that dies.
type victim string

const (
	victimAgent victim = "podexecd"
	// victimDirs and victimImages are the drivers of these volumes.
	victimDirs   victim = "the driver of directories"
	victimImages victim = "the driver of images"
	// victimRuntime is containerd.
	victimRuntime victim = "containerd"
)

// moment is when a program dies that serves a call.
type moment string

const (
	beforeCall moment = "before"
	inCall     moment = "in"
	afterCall  moment = "after"
)

// ending is a death at a certain point.
type ending struct {
	victim victim
	// point is podexecd's.
	point failpoint.Point
	// method and moment are of a call that the victim serves.
	method string
	moment moment
	// delay is the time between the begin of the call and a death in it.
	delay time.Duration
}

// unreached are the points that podexecd passes only while its disk is full.
const unreached = "storage/save/"

// agentPoints are podexecd's points, about in the order in which a pod passes them.
func agentPoints() []failpoint.Point {
	points := []failpoint.Point{failpoint.BeforeSetUp}
	points = append(points, failpoint.StoragePoints()...)
	points = append(points, failpoint.AfterSetUp)
	for _, call := range upCalls {
		points = append(points, failpoint.BeforeCall(call), failpoint.AfterCall(call))
	}
	for _, call := range downCalls {
		points = append(points, failpoint.BeforeCall(call), failpoint.AfterCall(call))
	}
	points = append(points, failpoint.BeforeTearDown, failpoint.SubPathsGone, failpoint.PluginsDone, failpoint.Unmounted, failpoint.AfterTearDown)
	return slices.DeleteFunc(points, func(p failpoint.Point) bool { return strings.HasPrefix(string(p), unreached) })
}

// upCalls and downCalls are the calls of the runtime that start and end a pod.
var (
	upCalls   = []string{"RunPodSandbox", "CreateContainer", "StartContainer"}
	downCalls = []string{"StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"}
)

// driverCalls are the calls of a driver for a pod. Only a volume of directories grows.
var driverCalls = map[victim][]string{
	victimDirs:   {"NodeStageVolume", "NodePublishVolume", "NodeExpandVolume", "NodeUnpublishVolume", "NodeUnstageVolume"},
	victimImages: {"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"},
}

// allPoints returns all deaths at certain points.
func allPoints(chance *mathrand.Rand, withRuntime bool) (all []ending) {
	for _, p := range agentPoints() {
		all = append(all, ending{victim: victimAgent, point: p})
	}
	calls := func(v victim, methods []string, longest time.Duration) {
		for _, method := range methods {
			for _, m := range []moment{beforeCall, inCall, afterCall} {
				all = append(all, ending{victim: v, method: method, moment: m, delay: time.Duration(chance.Int64N(int64(longest)))})
			}
		}
	}
	calls(victimDirs, driverCalls[victimDirs], 2*time.Millisecond)
	calls(victimImages, driverCalls[victimImages], 40*time.Millisecond)
	if withRuntime {
		calls(victimRuntime, slices.Concat(upCalls, downCalls), 60*time.Millisecond)
	}
	return all
}

// somePoints returns all points, or half as many as there are deaths if there are fewer deaths than that.
func somePoints(chance *mathrand.Rand, deaths int, withRuntime bool) []ending {
	all := allPoints(chance, withRuntime)
	if len(all) <= deaths {
		return all
	}
	chosen := chance.Perm(len(all))[:deaths/2]
	slices.Sort(chosen)
	some := make([]ending, 0, len(chosen))
	for _, i := range chosen {
		some = append(some, all[i])
	}
	return some
}

// fault returns the fault of a driver that dies so. One that is to die in a call is held there, and killed after that.
func (e ending) fault() fault.Fault {
	action := map[moment]fault.Action{beforeCall: fault.Die, inCall: fault.Hold, afterCall: fault.ActDie}[e.moment]
	return fault.Fault{Method: e.method, Action: action, Times: 1}
}

func (e ending) String() string {
	if e.victim == victimAgent {
		return "podexecd at " + string(e.point)
	}
	return string(e.victim) + " " + string(e.moment) + " " + e.method
}
