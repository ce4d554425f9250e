package service

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/board"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// hidden stands for words that the caller may not see.
const hidden = "(redacted)"

// view is what one call may see: what is in its caller's scope, and matches its filter.
type view struct {
	// sees tells whether a pod, and what is told of it, is in the view.
	sees func(source, namespace, name string) bool
	// redacted is set for those who get no words of containers and of the runtime, which may quote anything.
	redacted bool
	// hash is equal for equal views, whatever the order of a filter's entries.
	hash string
}

// view is the view of a call. A nil filter leaves the caller's scope.
func (s *Server) view(ctx context.Context, filter *podconfigv1.PodFilter) (view, error) {
	caller, ok := access.FromContext(ctx)
	if !ok || caller.Role == access.None {
		return view{}, status.Error(codes.PermissionDenied, "the caller has no role")
	}
	match, err := matcher(filter)
	if err != nil {
		return view{}, err
	}
	here := len(caller.Nodes) == 0 || slices.Contains(caller.Nodes, s.cfg.Node)
	v := view{redacted: caller.Role < access.Consumer}
	v.sees = func(source, namespace, name string) bool {
		return here && (len(caller.Sources) == 0 || slices.Contains(caller.Sources, source)) && match(source, namespace, name)
	}
	v.hash = hash(filter, caller.Sources, here, v.redacted)
	return v, nil
}

func hash(filter *podconfigv1.PodFilter, scope []string, here, redacted bool) string {
	h := sha256.New()
	for _, values := range [][]string{filter.GetSources(), filter.GetNamespaces(), filter.GetNames(), scope} {
		fmt.Fprintf(h, "%q\n", slices.Compact(slices.Sorted(slices.Values(values))))
	}
	fmt.Fprint(h, here, redacted)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// pods are those of the board that are in the view, in no order.
func (v view) pods(b *board.Board) []board.Pod {
	return slices.DeleteFunc(b.All(), func(p board.Pod) bool { return !v.sees(p.Source, p.Namespace, p.Name) })
}

// find is the pod in the view that a caller names, by its uid or else by namespace and name.
func (v view) find(b *board.Board, ref *podconfigv1.PodRef) (board.Pod, error) {
	if ref.GetUid() == "" && ref.GetName() == "" {
		return board.Pod{}, status.Error(codes.InvalidArgument, "ref: needs a uid or a name")
	}
	namespace := cmp.Or(ref.GetNamespace(), "default")
	var found *board.Pod
	for _, p := range v.pods(b) {
		switch {
		case ref.GetUid() != "" && string(p.UID) == ref.GetUid():
			found = &p
		// Of two incarnations with one name the desired one is meant.
		case ref.GetUid() == "" && p.Namespace == namespace && p.Name == ref.GetName() && (found == nil || p.Desired):
			found = &p
		}
	}
	if found == nil {
		return board.Pod{}, status.Errorf(codes.NotFound, "there is no pod %s", cmp.Or(ref.GetUid(), namespace+"/"+ref.GetName()))
	}
	return *found, nil
}

// errorText is what the caller may read of an error.
func (v view) errorText(err error) string {
	switch {
	case err == nil:
		return ""
	case v.redacted:
		return hidden
	default:
		return valid(err.Error())
	}
}

// status is what the caller may read of a status, which isn't changed.
func (v view) status(s *v1.PodStatus) *v1.PodStatus {
	if !v.redacted {
		return s
	}
	s = s.DeepCopy()
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			for _, state := range []*v1.ContainerState{&list[i].State, &list[i].LastTerminationState} {
				if state.Waiting != nil {
					state.Waiting.Message = hide(state.Waiting.Message)
				}
				if state.Terminated != nil {
					state.Terminated.Message = hide(state.Terminated.Message)
				}
			}
		}
	}
	return s
}

// hide keeps it visible that there is something.
func hide(text string) string {
	if text == "" {
		return ""
	}
	return hidden
}
