package apitest

import (
	"net/http"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// WatchListMode is how a server answers a watch that requests initial events.
type WatchListMode int

// The modes.
const (
	// WatchListServed: the server has streaming lists.
	WatchListServed WatchListMode = iota
	// WatchListWithoutProgress: its etcd is too old for them: 500.
	WatchListWithoutProgress
	// WatchListForbidden: they are switched off, or unknown: 422.
	WatchListForbidden
	// WatchListEndless: it begins them and never completes them: it sends no initial event, but all changes.
	WatchListEndless
	// WatchListUnanswered: it accepts the request, and doesn't answer it.
	WatchListUnanswered
)

// WatchList switches streaming lists on or off. New servers have them.
func (s *Server) WatchList(mode WatchListMode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchList = mode
}

// checkWatchList returns why a watch can't have its initial events. The caller holds the lock.
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

// empty returns an object with only metadata, as bookmarks are.
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
