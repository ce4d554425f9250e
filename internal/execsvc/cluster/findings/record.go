package findings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	// repeat is when a finding that lasts is recorded again: API servers keep events for an hour.
	repeat = time.Hour
	// nodeEvents and nodePause limit the events of the Node: the author of a manifest can change it all the time.
	// client-go drops events of one object after 25, and then all but one in five minutes; the Node needs them for
	// its other events.
	nodeEvents = 5
	nodePause  = 10 * time.Minute
	// maxFindings bounds the findings that are looked at, and maxKept the pods of each one.
	maxFindings = 1000
	maxKept     = 20
	// maxText bounds a name or a message of podconfigd in an event, in bytes.
	maxText = 1024
)

// finding is what makes two findings the same one. The errors of one document are one.
type finding struct {
	source, origin string
	document       int32
	// conflict is the message of a conflict. It names pods, and has no text of a manifest.
	conflict string
}

// entry is when a finding was first listed, and when it was recorded. Zero: not yet.
type entry struct{ first, node, pods time.Time }

// book has the findings of the last list.
type book struct {
	node    *rate.Limiter
	entries map[finding]*entry
	// served has, for each source, the number of the last event of the Node that was its, and events counts them.
	served map[string]int
	events int
}

func newBook() *book {
	return &book{node: rate.NewLimiter(rate.Every(nodePause), nodeEvents), entries: map[finding]*entry{}, served: map[string]int{}}
}

// due is what has to be recorded of a finding.
type due struct {
	message string
	// node is set if it is an event of the Node. pods are the pods that it is an event of.
	node bool
	pods []types.UID
}

// due returns what has to be recorded now, and forgets the findings that aren't among these any more. The sources share
// the findings that are looked at, and the events of the Node.
func (b *book) due(now time.Time, sources []*podconfigv1.Source) []due {
	before, served := b.entries, b.served
	b.entries, b.served = map[finding]*entry{}, map[string]int{}
	var out []due
	waiting := map[string][]finding{}
	for _, s := range sources {
		source, listed := cut(s.GetName()), 0
		b.served[source] = served[source]
		for _, f := range s.GetFindings() {
			if !isError(f) && !isConflict(f) {
				continue
			}
			key := keyOf(s, f)
			e := b.entries[key]
			if e == nil {
				if listed++; listed > max(maxFindings/len(sources), 1) {
					break
				}
				if e = before[key]; e == nil {
					e = &entry{first: now}
				}
				b.entries[key] = e
				if now.Sub(e.node) >= repeat {
					waiting[source] = append(waiting[source], key)
				}
			}
			if now.Sub(e.pods) < repeat {
				continue
			}
			if pods := keptPods(f); len(pods) > 0 {
				e.pods = now
				out = append(out, due{message: messageOf(key), pods: pods})
			}
		}
	}
	return append(out, b.ofNode(now, waiting)...)
}

// ofNode returns the events of the Node that are due: the next one is of the source that has waited the longest, and of
// its finding that has.
func (b *book) ofNode(now time.Time, waiting map[string][]finding) []due {
	var out []due
	for _, list := range waiting {
		slices.SortStableFunc(list, func(x, y finding) int {
			return cmp.Or(b.entries[x].node.Compare(b.entries[y].node), b.entries[x].first.Compare(b.entries[y].first))
		})
	}
	for len(waiting) > 0 && b.node.AllowN(now, 1) {
		next := slices.MinFunc(slices.Sorted(maps.Keys(waiting)), func(x, y string) int { return cmp.Compare(b.served[x], b.served[y]) })
		key := waiting[next][0]
		if waiting[next] = waiting[next][1:]; len(waiting[next]) == 0 {
			delete(waiting, next)
		}
		b.events++
		b.served[next], b.entries[key].node = b.events, now
		out = append(out, due{message: messageOf(key), node: true})
	}
	return out
}

func isError(f *podconfigv1.Finding) bool {
	return f.GetSeverity() == podconfigv1.FindingSeverity_FINDING_SEVERITY_ERROR
}

func isConflict(f *podconfigv1.Finding) bool {
	return f.GetSeverity() == podconfigv1.FindingSeverity_FINDING_SEVERITY_CONFLICT
}

func keyOf(s *podconfigv1.Source, f *podconfigv1.Finding) finding {
	key := finding{source: cut(s.GetName()), origin: cut(f.GetOrigin()), document: f.GetDocument()}
	if isConflict(f) {
		key.conflict = cut(f.GetMessage())
	}
	return key
}

// cut bounds a text. An event makes valid UTF-8 of it.
func cut(s string) string { return s[:min(len(s), maxText)] }

// messageOf returns the event's message.
func messageOf(f finding) string {
	where := f.origin
	if f.document > 0 {
		where = fmt.Sprintf("document %d of %s", f.document, f.origin)
	}
	if f.conflict != "" {
		return fmt.Sprintf("Error validating %s from %s, ignoring: %s", where, f.source, f.conflict)
	}
	return fmt.Sprintf("Error validating %s from %s, ignoring: podctl sources on the node shows the reason", where, f.source)
}

func keptPods(f *podconfigv1.Finding) []types.UID {
	var out []types.UID
	for _, p := range f.GetKeptPods() {
		if len(out) == maxKept {
			break
		}
		out = append(out, types.UID(p.GetUid()))
	}
	return out
}
