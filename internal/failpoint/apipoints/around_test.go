//go:build failpoints

package apipoints

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/podstream/podstream/internal/failpoint"
)

// Each request that publishes a change has its points, and no other request has any.
func TestNames(t *testing.T) {
	for request, want := range map[[2]string]string{
		{http.MethodPost, "/api/v1/nodes"}:                                    "CreateNode",
		{http.MethodGet, "/api/v1/nodes"}:                                     "",
		{http.MethodPatch, "/api/v1/nodes/n/status"}:                          "",
		{http.MethodPost, "/api/v1/namespaces/ns/pods"}:                       "CreatePod",
		{http.MethodGet, "/api/v1/namespaces/ns/pods"}:                        "",
		{http.MethodDelete, "/api/v1/namespaces/ns/pods/p"}:                   "DeletePod",
		{http.MethodPatch, "/api/v1/namespaces/ns/pods/p/status"}:             "PatchPodStatus",
		{http.MethodPost, "/api/v1/namespaces/ns/serviceaccounts/p/token"}:    "",
		{http.MethodPost, "/api/v1/namespaces/ns/events"}:                     "",
		{http.MethodPost, "/apis/coordination.k8s.io/v1/namespaces/n/leases"}: "",
	} {
		got := nameOf(httptest.NewRequest(request[0], request[1], nil))
		if got != want {
			t.Errorf("%v has the points of %q; want %q", request, got, want)
		}
		if got != "" && !slices.Contains(failpoint.ClusterPoints(), failpoint.BeforeRequest(got)) {
			t.Errorf("there is no point for %s", got)
		}
	}
}
