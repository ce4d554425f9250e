package podexecapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/redact"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// view is the data that one call may see: the pods in its caller's scope that match its filter.
type view struct {
	// match reports whether a pod, and data about it, is in the view, as far as its source and name determine that.
	match func(source, namespace, name string) bool
	// owner is the identity of the only caller whose applied pods are in the view. Empty: any pods are.
	owner string
	// audience decides which parts of a pod's status, and of the messages of containers and the runtime, the caller
	// gets.
	audience redact.Audience
	// here reports whether this node is in the caller's scope, and node whether all of the node's pods are.
	here, node bool
	// hash is equal for equal views, whatever the order of a filter's entries.
	hash string
}

// view returns the view of a call. A nil filter selects the caller's scope.
func (s *Server) view(ctx context.Context, filter *podconfigv1.PodFilter) (view, error) {
	caller, ok := access.FromContext(ctx)
	if !ok || caller.Role == access.None {
		return view{}, permissionDenied("the caller has no role")
	}
	match, err := matcher(filter)
	if err != nil {
		return view{}, err
	}
	here := caller.HasNode(s.cfg.Node)
	v := view{audience: redact.AudienceOf(caller.Role), here: here, node: here && len(caller.Sources) == 0}
	if caller.OwnOnly() {
		v.owner = caller.Identity
	}
	v.match = func(source, namespace, name string) bool {
		return here && (len(caller.Sources) == 0 || slices.Contains(caller.Sources, source)) && match(source, namespace, name)
	}
	v.hash = hash(filter, caller.Sources, here, !v.audience.Whole())
	return v, nil
}

// nodeView returns the view of a call that concerns the whole node. It fails unless the caller has the role for the method, and
// all of the node in its scope.
func (s *Server) nodeView(ctx context.Context, fullMethod string) (view, error) {
	if err := permit(ctx, fullMethod); err != nil {
		return view{}, err
	}
	v, err := s.view(ctx, nil)
	if err == nil && !v.node {
		err = permissionDenied("images and volumes are of all pods of the node, and the caller is limited to sources or other nodes")
	}
	return v, err
}

// sees reports whether data about a pod is in the view. If the view has an owner, none is: it isn't known whose pod it was.
func (v view) sees(source, namespace, name string) bool {
	return v.owner == "" && v.match(source, namespace, name)
}

// has reports whether a pod is in the view.
func (v view) has(p podview.Pod) bool {
	return v.match(p.Source, p.Namespace, p.Name) && (v.owner == "" || p.Object != nil && podmeta.AppliedBy(p.Object) == v.owner)
}

func hash(filter *podconfigv1.PodFilter, scope []string, here, redacted bool) string {
	h := sha256.New()
	for _, values := range [][]string{filter.GetSources(), filter.GetNamespaces(), filter.GetNames(), scope} {
		fmt.Fprintf(h, "%q\n", slices.Compact(slices.Sorted(slices.Values(values))))
	}
	fmt.Fprint(h, here, redacted)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// pods returns the board's pods in the view, in no order.
func (v view) pods(b *podview.Board) []podview.Pod {
	return slices.DeleteFunc(b.All(), func(p podview.Pod) bool { return !v.has(p) })
}

// find returns the pod in the view with the ref's UID, or else its namespace and name.
func (v view) find(b *podview.Board, ref *podconfigv1.PodRef) (podview.Pod, error) {
	if ref.GetUid() == "" && ref.GetName() == "" {
		return podview.Pod{}, invalidArgument("ref: needs a uid or a name")
	}
	namespace := cmp.Or(ref.GetNamespace(), "default")
	var found *podview.Pod
	for _, p := range v.pods(b) {
		switch {
		case ref.GetUid() != "" && string(p.UID) == ref.GetUid():
			found = &p
		// Of two pods with one name the desired one is returned.
		case ref.GetUid() == "" && p.Namespace == namespace && p.Name == ref.GetName() && (found == nil || p.Desired):
			found = &p
		}
	}
	if found == nil {
		return podview.Pod{}, notFound("there is no pod %s", cmp.Or(ref.GetUid(), namespace+"/"+ref.GetName()))
	}
	return *found, nil
}

// errorText returns the part of an error that the caller may see.
func (v view) errorText(err error) string {
	if err == nil {
		return ""
	}
	return valid(v.audience.Words(err.Error()))
}
