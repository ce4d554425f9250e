package apistatus

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// entry is the state of a pod on the board. Writer.mu guards it.
type entry struct {
	namespace, name string
	// since is the time of the first change that hasn't been handled. Zero: none.
	since time.Time
	// answer is the last patch and its response. It is used until the stream has brought the same version, or a
	// newer one.
	answer *answer
	// gone is the UID that the API server no longer has, deleted the one whose deletion was requested.
	gone, deleted types.UID
	// retry is the end of the pause after that number of failures in a row, and trouble the last failure. Empty: the
	// last request succeeded.
	retry    time.Time
	failures int
	trouble  outcome
}

// answer is a patch with its response.
type answer struct {
	uid     types.UID
	version string
	status  v1.PodStatus
	// asked is the requested status, if the API server stored another one. Nil: it stored the requested one.
	asked *v1.PodStatus
}

func (e *entry) changed(now time.Time) {
	if e.since.IsZero() {
		e.since = now
	}
}

// copyOf returns the API server's newest copy of a pod, given the one of the stream.
func (e *entry) copyOf(streamed *v1.Pod) *v1.Pod {
	if e.answer == nil || e.answer.uid != streamed.UID {
		return streamed
	}
	order, err := resourceversion.CompareResourceVersion(e.answer.version, streamed.ResourceVersion)
	if err != nil || order < 0 || (order == 0 && e.answer.asked == nil) {
		e.answer = nil
		return streamed
	}
	newer := *streamed
	newer.Status = e.answer.status
	return &newer
}

// asksAgain reports whether the task repeats the last patch, and the API server's copy is still its response: a
// server that doesn't have a field, for example, drops it each time.
func (e *entry) asksAgain(t *task) bool {
	return e.answer != nil && e.answer.uid == t.uid && e.answer.asked != nil && t.status != nil &&
		same(t.pod, e.answer.asked, t.status) && equalCopy(t, &e.answer.status)
}

// equalCopy reports whether the task was planned with that copy.
func equalCopy(t *task, there *v1.PodStatus) bool {
	other := there.DeepCopy()
	normalise(t.pod, other)
	return same(t.pod, t.there, other)
}
