package apistatus

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// entry is what is remembered of a pod on the board. Writer.mu guards it.
type entry struct {
	namespace, name string
	// since is when there was first something to look at. Zero: it has been looked at.
	since time.Time
	// answer is what the last patch was answered with. It counts until the stream has brought it, or something newer.
	answer *answer
	// gone is the UID that the API server knows no more, deleted the one whose deletion it was asked to complete.
	gone, deleted types.UID
	// retry is the end of the pause after so many failures in a row, and trouble how the last request failed. Empty: it was taken.
	retry    time.Time
	failures int
	trouble  outcome
}

// answer is a patch with what became of it.
type answer struct {
	uid     types.UID
	version string
	status  v1.PodStatus
	// asked is the status that was asked for, if the API server took it in another way. Nil: it took it as it was.
	asked *v1.PodStatus
}

func (e *entry) changed(now time.Time) {
	if e.since.IsZero() {
		e.since = now
	}
}

// copyOf is the API server's newest copy of a pod, given the one that was streamed.
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

// asksAgain tells whether the task is what the last patch asked for, and the API server's copy still what it made of that: a server that
// doesn't know a field, say, leaves it out each time.
func (e *entry) asksAgain(t *task) bool {
	return e.answer != nil && e.answer.uid == t.uid && e.answer.asked != nil && t.status != nil &&
		same(t.pod, e.answer.asked, t.status) && equalCopy(t, &e.answer.status)
}

// equalCopy tells whether the copy by which the task was planned is that one.
func equalCopy(t *task, there *v1.PodStatus) bool {
	other := there.DeepCopy()
	normalise(t.pod, other)
	return same(t.pod, t.there, other)
}
