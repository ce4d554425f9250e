package apitest

import (
	"net/http"
	"strconv"
	"strings"
)

// Request is one request of a client.
type Request struct {
	// Verb is get, list or watch.
	Verb string
	// Resource is pods, configmaps, secrets, nodes or services, or version. Namespace and Name may be empty.
	Resource, Namespace, Name    string
	FieldSelector, LabelSelector string
	ResourceVersion, Continue    string
	Limit                        int
	// Metadata: only the metadata of the objects of a list or watch is requested.
	Metadata bool
	// InitialEvents: it is a watch that begins with a streaming list.
	InitialEvents bool
	// User is the token, or the certificate's common name.
	User string
	// Accept is the header.
	Accept string
	// Code is the status of the answer. It is zero while Answer is called.
	Code int

	resourceVersionMatch string
	allowBookmarks       bool
	timeoutSeconds       int
}

// parse reads a request. It returns an error if the server doesn't support it.
func parse(r *http.Request) (Request, bool) {
	rest, ok := strings.CutPrefix(r.URL.Path, "/api/v1/")
	if !ok || r.Method != http.MethodGet {
		return Request{}, false
	}
	parts := strings.Split(rest, "/")
	req := Request{User: userOf(r), Accept: r.Header.Get("Accept")}
	if len(parts) > 2 && parts[0] == "namespaces" {
		req.Namespace, parts = parts[1], parts[2:]
	}
	if req.Resource = parts[0]; kinds[req.Resource].Empty() {
		return Request{}, false
	}
	if len(parts) > 2 || len(parts) == 2 && (req.Namespace == "") != (req.Resource == "nodes") {
		return Request{}, false
	}
	query := r.URL.Query()
	req.FieldSelector, req.LabelSelector = query.Get("fieldSelector"), query.Get("labelSelector")
	req.ResourceVersion, req.Continue = query.Get("resourceVersion"), query.Get("continue")
	req.resourceVersionMatch = query.Get("resourceVersionMatch")
	// What isn't a number counts as none here.
	req.Limit, _ = strconv.Atoi(query.Get("limit"))
	req.timeoutSeconds, _ = strconv.Atoi(query.Get("timeoutSeconds"))
	req.InitialEvents = query.Get("sendInitialEvents") == "true"
	req.allowBookmarks = query.Get("allowWatchBookmarks") == "true"
	switch {
	case len(parts) == 2:
		req.Verb, req.Name = "get", parts[1]
	case query.Get("watch") == "true" || query.Get("watch") == "1":
		req.Verb = "watch"
	default:
		req.Verb = "list"
	}
	return req, true
}

func userOf(r *http.Request) string {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return token
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return r.TLS.PeerCertificates[0].Subject.CommonName
	}
	return ""
}
