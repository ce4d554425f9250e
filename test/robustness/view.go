package robustness

import (
	"slices"

	"google.golang.org/protobuf/encoding/prototext"
	"k8s.io/apimachinery/pkg/labels"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// view is the pods that a consumer requested.
type view struct {
	mode     podconfigv1.NotificationMode
	filter   *podconfigv1.PodFilter
	selector labels.Selector
}

// newView returns the view of a request. A label selector that can't be parsed selects nothing: the daemon must
// have rejected it.
func newView(request *podconfigv1.WatchPodUpdatesRequest) *view {
	v := &view{mode: request.GetMode(), filter: request.GetFilter()}
	if v.mode == podconfigv1.NotificationMode_NOTIFICATION_MODE_UNSPECIFIED {
		v.mode = podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL
	}
	var err error
	if v.selector, err = labels.Parse(v.filter.GetLabelSelector()); err != nil {
		v.selector = labels.Nothing()
	}
	return v
}

// key is equal for equal requests.
func (v *view) key() string {
	return v.mode.String() + " " + prototext.MarshalOptions{}.Format(v.filter)
}

// snapshots reports whether changes come as SETs. Such a consumer doesn't receive changes of only a status.
func (v *view) snapshots() bool {
	return v.mode != podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL
}

// filtered reports whether the filter excludes some pods.
func (v *view) filtered() bool { return v.bySource() || v.byOther() }

func (v *view) bySource() bool { return len(v.filter.GetSources()) > 0 }

func (v *view) byOther() bool {
	f := v.filter
	return len(f.GetNodes())+len(f.GetNamespaces())+len(f.GetNames()) > 0 || f.GetLabelSelector() != ""
}

// varies reports whether a pod can enter or leave the view while it exists.
func (v *view) varies() bool {
	return len(v.filter.GetNodes()) > 0 || v.filter.GetLabelSelector() != ""
}

// sees reports whether pods of that source may be in the view.
func (v *view) sees(source string) bool { return has(v.filter.GetSources(), source) }

// sources returns the names of the state's sources in the view, in order of priority.
func (v *view) sources(s *State) []string {
	var names []string
	for _, src := range s.Sources {
		if v.sees(src.Name) {
			names = append(names, src.Name)
		}
	}
	return names
}

// matches reports whether that version of the pod is in the view.
func (v *view) matches(p *Pod) bool {
	f := v.filter
	return v.sees(p.Source) && has(f.GetNodes(), p.Node) && has(f.GetNamespaces(), p.Namespace) && has(f.GetNames(), p.Name) &&
		v.selector.Matches(labels.Set(p.Labels))
}

// mayHold reports whether some version of the pod may be in the view. An empty name means that the name is
// unknown.
func (v *view) mayHold(h *held) bool {
	return v.sees(h.source) && (h.name == "" || has(v.filter.GetNamespaces(), h.namespace) && has(v.filter.GetNames(), h.name))
}

// has reports whether an entry is the value; no entries select every value.
func has(entries []string, value string) bool {
	return len(entries) == 0 || slices.Contains(entries, value)
}

// pod returns the pod with that UID at a state, or nil if it isn't in the view.
func (v *view) pod(s *State, uid string) *Pod {
	if p := s.Pods[uid]; p != nil && v.matches(p) {
		return p
	}
	return nil
}

// differs returns what a consumer with this view must receive when one state follows another, or "". The consumer
// may already know the changes of the pods in except.
func (v *view) differs(before, after *State, except map[string]bool) string {
	for uid := range before.Pods {
		if p := v.pod(before, uid); p != nil && v.pod(after, uid) == nil && !except[uid] {
			return describe(p) + " is no longer there"
		}
	}
	for uid := range after.Pods {
		p, old := v.pod(after, uid), v.pod(before, uid)
		switch {
		case p == nil || except[uid]:
		case old == nil || !p.continues(old):
			return describe(p) + " is new"
		case p.SpecDigest != old.SpecDigest:
			return describe(p) + " has another spec"
		case p.StatusDigest != old.StatusDigest && !v.snapshots():
			return describe(p) + " has another status"
		}
	}
	for _, s := range after.Sources {
		if s.Ready && !before.Ready(s.Name) && v.sees(s.Name) {
			return "source " + s.Name + " has become ready"
		}
	}
	return ""
}
