package auth

import (
	"net/http"
	"slices"
	"strings"
)

// verbs are what the methods are called in a review. Other methods have no name, and are allowed to nobody.
var verbs = map[string]string{
	http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// subresources are those of the paths, by their first element: any of them is enough. All other paths are proxy's.
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

// commands are the paths by which something is done in a container.
var commands = []string{"exec", "attach", "portForward", "run"}

// Attributes are what is asked in a review of a request to nodes: its verb, and the subresources of which any is enough, in the order to
// ask for them. An unknown method has no verb and no subresources. The path is one that package server has found to be clean.
//
// They are the kubelet's (pkg/kubelet/server/auth.go), but for one thing: with the kubelet a WebSocket is a GET, so that "get" of
// nodes/proxy, which monitoring agents are given to read, runs commands in any container. Here that takes "create" however it is asked.
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
