package csinode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// apiServer has the Node and the CSINode n1. It checks changes as an API server does.
type apiServer struct {
	t *testing.T

	mu sync.Mutex
	// away has each call fail before it arrives.
	away bool
	// attempts counts them.
	attempts int
	// deny, if set, gives the message of a refusal of a change, or none.
	deny func(method, what, body string) string
	// onWrite, if set, is called with each change before it is applied, with the lock.
	onWrite func(method, what string)

	version int
	node    *v1.Node
	csinode *storagev1.CSINode
	// calls are the methods and resources of the calls that arrived.
	calls []string
}

var errAway = errors.New("connection refused")

// RoundTrip is part of http.RoundTripper.
func (a *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away {
		a.attempts++
		return nil, errAway
	}
	what := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/apis/storage.k8s.io/v1/")
	what, name, _ := strings.Cut(what, "/")
	a.calls = append(a.calls, r.Method+" "+what)
	if r.Method != http.MethodGet {
		if a.onWrite != nil {
			a.onWrite(r.Method, what)
		}
		if a.deny != nil {
			if why := a.deny(r.Method, what, string(body)); why != "" {
				return failure(http.StatusForbidden, metav1.StatusReasonForbidden, why), nil
			}
		}
	}
	switch {
	case what == "nodes" && (name == "n1" && r.Method == http.MethodGet || name == "n1/status" && r.Method == http.MethodPatch):
		return a.nodes(r.Method, body), nil
	case what == "csinodes" && (name == "n1" || name == "" && r.Method == http.MethodPost):
		return a.csinodes(r.Method, body), nil
	}
	a.t.Errorf("a request that a node may not make: %s %s", r.Method, r.URL.Path)
	return failure(http.StatusForbidden, metav1.StatusReasonForbidden, "no"), nil
}

func (a *apiServer) nodes(method string, body []byte) *http.Response {
	switch {
	case a.node == nil:
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound, `nodes "n1" not found`)
	case method == http.MethodGet:
		return a.answer(a.node)
	}
	before, err := json.Marshal(a.node)
	a.must(err)
	data, err := jsonpatch.MergePatch(before, body)
	a.must(err)
	after := &v1.Node{}
	a.must(json.Unmarshal(data, after))
	if after.UID != a.node.UID || after.ResourceVersion != a.node.ResourceVersion {
		return failure(http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified")
	}
	a.setNode(after)
	return a.answer(a.node)
}

func (a *apiServer) setNode(node *v1.Node) {
	a.version++
	node.ResourceVersion = strconv.Itoa(a.version)
	a.node = node
}

func (a *apiServer) csinodes(method string, body []byte) *http.Response {
	object := &storagev1.CSINode{}
	if method == http.MethodPost || method == http.MethodPut {
		a.must(json.Unmarshal(body, object))
	}
	switch {
	case method == http.MethodPost && a.csinode != nil:
		return failure(http.StatusConflict, metav1.StatusReasonAlreadyExists, `csinodes "n1" already exists`)
	case method == http.MethodPost:
		object.UID = types.UID(fmt.Sprint("c", a.version))
	case a.csinode == nil:
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound, `csinodes "n1" not found`)
	case method == http.MethodGet:
		return a.answer(a.csinode)
	case method == http.MethodDelete:
		var options metav1.DeleteOptions
		a.must(json.Unmarshal(body, &options))
		if p := options.Preconditions; p == nil || p.UID == nil || *p.UID != a.csinode.UID {
			return failure(http.StatusConflict, metav1.StatusReasonConflict, "Precondition failed")
		}
		a.csinode = nil
		return a.answer(&metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
	case object.ResourceVersion != a.csinode.ResourceVersion:
		return failure(http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified")
	}
	if why := invalid(a.csinode, object); why != "" {
		return failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, why)
	}
	a.version++
	object.ResourceVersion = strconv.Itoa(a.version)
	a.csinode = object
	return a.answer(object)
}

// invalid is upstream's validation: the ID and the keys of an entry don't change.
func invalid(before, after *storagev1.CSINode) string {
	for _, d := range after.Spec.Drivers {
		if d.NodeID == "" || d.NodeID == "refused" {
			return "spec.drivers.nodeID: Invalid value"
		}
		if before == nil {
			continue
		}
		for _, was := range before.Spec.Drivers {
			if was.Name == d.Name && (was.NodeID != d.NodeID || !slices.Equal(was.TopologyKeys, d.TopologyKeys)) {
				return "spec.drivers: field is immutable"
			}
		}
	}
	return ""
}

func (a *apiServer) must(err error) {
	if err != nil {
		a.t.Error(err)
	}
}

func (a *apiServer) answer(object any) *http.Response {
	data, err := json.Marshal(object)
	a.must(err)
	return response(http.StatusOK, data)
}

func failure(code int, reason metav1.StatusReason, message string) *http.Response {
	data, _ := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: reason, Message: message, Code: int32(code),
	})
	return response(code, data)
}

func response(code int, data []byte) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data))}
}
