package auth

import (
	"net/http"
	"slices"
	"strings"
)

// verbs are the verbs of HTTP methods in a review. Other methods have no verb, and are always refused.
var verbs = map[string]string{
	http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// subresources are the subresources of paths, by their first element: permission for any of them suffices. All other
// paths need proxy.
var subresources = map[string][]string{
	"pods":        {"pods", "proxy"},
	"runningpods": {"pods", "proxy"},
	"healthz":     {"healthz", "proxy"},
	"configz":     {"configz", "proxy"},
	"stats":       {"stats"},
	"metrics":     {"metrics"},
	"logs":        {"log"},
	"checkpoint":  {"checkpoint"},
	"statusz":     {"statusz"},
	"flagz":       {"configz"},
}

// commands are the paths that act in a container.
var commands = []string{"exec", "attach", "portForward", "run"}

// Attributes returns the attributes of a request for a review on nodes: the verb, and the subresources, of which
// permission for any suffices, in the order to review them. An unknown method has no verb and no subresources. The
// path is one that package kubeletapi has found to be clean.
//
// They are the kubelet's (pkg/kubelet/server/auth.go), with one exception: with the kubelet a WebSocket is a GET, so
// that "get" of nodes/proxy, which monitoring agents are granted for reading, runs commands in any container. Here a
// command always needs "create".
func Attributes(method, path string) (verb string, anyOf []string) {
	verb, ok := verbs[method]
	if !ok {
		return "", nil
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if verb == "get" && slices.Contains(commands, first) {
		verb = "create"
	}
	if own, ok := subresources[first]; ok {
		return verb, own
	}
	return verb, []string{"proxy"}
}
