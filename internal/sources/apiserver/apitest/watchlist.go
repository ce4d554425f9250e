package apitest

import (
	"net/http"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// WatchListMode is what a server makes of a watch that asks for initial events.
type WatchListMode int

// The modes.
const (
	// WatchListServed is a server that has streaming lists.
	WatchListServed WatchListMode = iota
	// WatchListWithoutProgress is one whose etcd is too old for them: 500.
	WatchListWithoutProgress
	// WatchListForbidden is one that has them switched off, or doesn't know them: 422.
	WatchListForbidden
	// WatchListEndless is one that begins them and never comes to their end: of what there is nothing is sent, of what changes
	// everything.
	WatchListEndless
	// WatchListUnanswered is one that takes the request, and doesn't answer it.
	WatchListUnanswered
)

// WatchList switches streaming lists on or off. New servers have them.
func (s *Server) WatchList(mode WatchListMode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchList = mode
}

// checkWatchList says why a watch can't have its initial events. The caller holds the lock.
func (s *Server) checkWatchList(r Request) *metav1.Status {
	switch {
	case !r.InitialEvents && r.resourceVersionMatch != "":
		return invalid("resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
	case !r.InitialEvents:
		return nil
	case r.resourceVersionMatch != string(metav1.ResourceVersionMatchNotOlderThan) || !r.allowBookmarks:
		return invalid("sendInitialEvents requires resourceVersionMatch=NotOlderThan and allowWatchBookmarks")
	case s.watchList == WatchListWithoutProgress:
		return failure(http.StatusInternalServerError, metav1.StatusReasonInternalError,
			"Internal error occurred: RequestWatchProgress is disabled")
	case s.watchList == WatchListForbidden:
		return invalid("sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
	default:
		return nil
	}
}

// empty is an object with nothing but metadata, as bookmarks are.
func empty(resource string, meta metav1.ObjectMeta) runtime.Object {
	kind := metav1.TypeMeta{Kind: kinds[resource].Kind, APIVersion: "v1"}
	switch resource {
	case "pods":
		return &v1.Pod{TypeMeta: kind, ObjectMeta: meta}
	case "configmaps":
		return &v1.ConfigMap{TypeMeta: kind, ObjectMeta: meta}
	default:
		return &v1.Secret{TypeMeta: kind, ObjectMeta: meta}
	}
}
