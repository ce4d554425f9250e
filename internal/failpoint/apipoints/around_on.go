//go:build failpoints

package apipoints

import (
	"net/http"
	"strings"

	"github.com/podstream/podstream/internal/failpoint"
)

// Around adds the points to the transport.
func Around(next http.RoundTripper) http.RoundTripper { return transport{next} }

type transport struct{ next http.RoundTripper }

// RoundTrip is part of http.RoundTripper.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	name := nameOf(request)
	if name == "" {
		return t.next.RoundTrip(request)
	}
	failpoint.Reached(failpoint.BeforeRequest(name))
	response, err := t.next.RoundTrip(request)
	if err == nil {
		failpoint.Reached(failpoint.AfterRequest(name))
	}
	return response, err
}

// nameOf returns the name of the request's points. It is empty for a request without points.
func nameOf(request *http.Request) string {
	elements := strings.Split(strings.Trim(request.URL.Path, "/"), "/") // api/v1/nodes, or api/v1/namespaces/NAMESPACE/pods/NAME/status
	if len(elements) < 3 || elements[0] != "api" {
		return ""
	}
	switch resource := elements[2:]; {
	case len(resource) == 1 && resource[0] == "nodes" && request.Method == http.MethodPost:
		return "CreateNode"
	case len(resource) < 3 || resource[0] != "namespaces" || resource[2] != "pods":
		return ""
	case len(resource) == 3 && request.Method == http.MethodPost:
		return "CreatePod"
	case len(resource) == 4 && request.Method == http.MethodDelete:
		return "DeletePod"
	case len(resource) == 5 && resource[4] == "status" && request.Method == http.MethodPatch:
		return "PatchPodStatus"
	}
	return ""
}
