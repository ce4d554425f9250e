package view

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/redact"
	"github.com/podstream/podstream/internal/write"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Config is a consumer's request, and the scope of its role. The zero value is incremental and sees everything.
type Config struct {
	// Mode is how changes are put into ops. Unspecified means incremental.
	Mode podconfigv1.NotificationMode
	// Filter selects pods. Nil selects all.
	Filter *podconfigv1.PodFilter
	// Nodes and Sources are the scope of the caller's role, independent of the filter. Empty: all.
	Nodes, Sources []string
	// Owner is the identity of the only caller whose applied pods are seen. Empty: any pods are. A view with an Owner is for
	// lists, not for streams: a removed pod's owner isn't known.
	Owner string
	// Redacted is set if the caller gets pods without possible secrets. Then no op reports a change that it can't
	// see.
	Redacted bool
}

// View is what one consumer sees.
type View struct {
	mode     podconfigv1.NotificationMode
	redacted bool
	owner    string
	hash     string
	// A pod must be in each set, and match the selector.
	sources, nodes, namespaces, names set
	selector                          labels.Selector
	// scope are the nodes and sources of the role's scope alone.
	scope struct{ nodes, sources set }
	// mask is what isn't in the view although it matches. Nil: nothing.
	mask *Mask
}

// New returns the View. An error names the field of the request that is wrong.
func New(cfg Config) (*View, error) {
	mode := cfg.Mode
	if mode == podconfigv1.NotificationMode_NOTIFICATION_MODE_UNSPECIFIED {
		mode = podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL
	}
	if _, ok := podconfigv1.NotificationMode_name[int32(mode)]; !ok {
		return nil, fmt.Errorf("mode: %d isn't known", mode)
	}
	if err := checkFilter(cfg.Filter); err != nil {
		return nil, err
	}
	selector, err := labels.Parse(cfg.Filter.GetLabelSelector())
	if err != nil {
		return nil, fmt.Errorf("filter.label_selector: %w", err)
	}
	if requirements, _ := selector.Requirements(); len(requirements) > maxRequirements {
		return nil, fmt.Errorf("filter.label_selector: has %d requirements; the maximum is %d", len(requirements), maxRequirements)
	}
	v := &View{
		mode: mode, redacted: cfg.Redacted, owner: cfg.Owner, selector: selector,
		sources:    newSet(cfg.Sources).and(newSet(cfg.Filter.GetSources())),
		nodes:      newSet(cfg.Nodes).and(newSet(cfg.Filter.GetNodes())),
		namespaces: newSet(cfg.Filter.GetNamespaces()),
		names:      newSet(cfg.Filter.GetNames()),
	}
	v.scope.nodes, v.scope.sources = newSet(cfg.Nodes), newSet(cfg.Sources)
	v.hash = cfg.hash(mode, selector)
	return v, nil
}

// hash covers all that decides which ops a consumer gets. Unset fields don't count, so that cursors stay valid in a
// version that has more fields.
func (cfg Config) hash(mode podconfigv1.NotificationMode, selector labels.Selector) string {
	h := sha256.New()
	fmt.Fprint(h, mode)
	field := func(name string, values []string) {
		if values = slices.Sorted(maps.Keys(newSet(values))); len(values) > 0 {
			fmt.Fprintf(h, "\n%s=%q", name, values)
		}
	}
	var wanted []string
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		wanted = append(wanted, r.String())
	}
	field("sources", cfg.Filter.GetSources())
	field("nodes", cfg.Filter.GetNodes())
	field("namespaces", cfg.Filter.GetNamespaces())
	field("names", cfg.Filter.GetNames())
	field("labels", wanted)
	field("scope.sources", cfg.Sources)
	field("scope.nodes", cfg.Nodes)
	if cfg.Owner != "" {
		field("scope.owner", []string{cfg.Owner})
	}
	if cfg.Redacted {
		field("redacted", []string{"true"})
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Hash is 16 hex digits for cursors. Equal views have equal hashes, whatever the order and repetition of a filter's
// entries.
func (v *View) Hash() string { return v.hash }

// Mode is never unspecified.
func (v *View) Mode() podconfigv1.NotificationMode { return v.mode }

// Redacted is as in Config.
func (v *View) Redacted() bool { return v.redacted }

// Digests returns the digests of the pod as the consumer gets it. Only they may be compared with the digests that it
// sends: a caller that gets redacted pods could test guesses of a secret against the others. Both are empty if the
// pod can't be redacted; then no digest equals them.
func (v *View) Digests(p *revision.Pod) (spec, status string) {
	if !v.redacted {
		return p.SpecDigest, p.StatusDigest
	}
	return p.Digests(redact.Audience{})
}

// Changed returns the revisions at which the spec and the status of the pod last changed as the consumer sees them.
// Before Horizon they may include changes that it didn't see.
func (v *View) Changed(p *revision.Pod) (spec, status uint64) {
	if v.redacted {
		return p.ShownChanged()
	}
	return p.SpecChanged, p.StatusChanged
}

// Horizon is the first revision after which the state has all changes of each pod that the consumer sees. For a
// consumer of redacted pods it rises as the history drops revisions.
func (v *View) Horizon(st *history.State) uint64 {
	if v.redacted {
		return max(st.Horizon, st.ShownHorizon())
	}
	return st.Horizon
}

// Everything reports whether the view is incremental, without filter or scope, so that the consumer gets all changes
// of each revision, redacted or not.
func (v *View) Everything() bool {
	return v.mask == nil && v.owner == "" && !v.Snapshots() && v.Fixed() && v.sources == nil && v.namespaces == nil && v.names == nil
}

// Snapshots reports whether added and removed pods are reported by a SET.
func (v *View) Snapshots() bool {
	return v.mode != podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL
}

// Fixed reports whether a pod never enters or leaves the view while it exists: the view selects neither by label nor
// by node, and all else is constant under one UID and source.
func (v *View) Fixed() bool { return v.nodes == nil && v.selector.Empty() && v.owner == "" }

// Nodes returns the only nodes whose pods may be in the view, in order; nil if any may.
func (v *View) Nodes() []string {
	if v.nodes == nil {
		return nil
	}
	return append([]string{}, slices.Sorted(maps.Keys(v.nodes))...)
}

// Sees reports whether pods of the source may be in the view.
func (v *View) Sees(source string) bool {
	return v.sources.has(source) && (v.mask == nil || !v.mask.Sources[source])
}

// MayMatch reports whether the view may hold a pod of which only this is known. An empty name isn't known either.
func (v *View) MayMatch(source string, uid types.UID, namespace, name string) bool {
	return v.Sees(source) && !v.mask.hides(uid, namespace, name) && (name == "" || v.namespaces.has(namespace) && v.names.has(name))
}

// InScope reports whether the node and source of the pod are in the caller's scope. A pod never moves to another
// node, so a pod that is on another node now was never sent.
func (v *View) InScope(p *revision.Pod) bool {
	return v.scope.nodes.has(p.Object.Spec.NodeName) && v.scope.sources.has(p.Source)
}

// Matches reports whether the consumer sees this version of the pod.
func (v *View) Matches(p *revision.Pod) bool {
	return !v.mask.has(p) && v.sources.has(p.Source) && v.nodes.has(p.Object.Spec.NodeName) && v.namespaces.has(p.Object.Namespace) &&
		v.names.has(p.Object.Name) && v.selector.Matches(labels.Set(p.Object.Labels)) && v.owns(p)
}

// owns reports whether the pod is the owner's, if the view has one. Only the source of written pods sets the annotation:
// in any other one, its author has written it.
func (v *View) owns(p *revision.Pod) bool {
	return v.owner == "" || p.Source == write.Source && p.Object.Annotations[manifest.CallerAnnotation] == v.owner
}

// Pods returns the pods that match, in the same order; all itself if they all match.
func (v *View) Pods(all []*revision.Pod) []*revision.Pod {
	return matching(all, v.Matches)
}

// Lists reports whether the source is one of those that Listed returns, if it is configured.
func (v *View) Lists(source string) bool { return v.sources.has(source) }

// Listed returns the sources in the scope that the filter selects, also those that a mask hides: a consumer takes a
// source that isn't listed for one that isn't configured.
func (v *View) Listed(s history.Sources) history.Sources {
	return matching(s, func(src history.Source) bool { return v.sources.has(src.Name) })
}

// Sources is Listed without the sources that a mask hides.
func (v *View) Sources(s history.Sources) history.Sources {
	return matching(s, func(src history.Source) bool { return v.Sees(src.Name) })
}

// matching copies all only if it leaves out an element.
func matching[S ~[]E, E any](all S, match func(E) bool) S {
	out := slices.IndexFunc(all, func(e E) bool { return !match(e) })
	if out < 0 {
		return all
	}
	left := slices.Clone(all[:out])
	for _, e := range all[out+1:] {
		if match(e) {
			left = append(left, e)
		}
	}
	return left
}

// set is a set of selected values; nil selects all.
type set map[string]bool

func newSet(values []string) set {
	if len(values) == 0 {
		return nil
	}
	s := set{}
	for _, v := range values {
		s[v] = true
	}
	return s
}

func (s set) has(value string) bool { return s == nil || s[value] }

// and returns the intersection.
func (s set) and(other set) set {
	switch {
	case s == nil:
		return other
	case other == nil:
		return s
	}
	both := set{}
	for v := range s {
		if other[v] {
			both[v] = true
		}
	}
	return both
}
