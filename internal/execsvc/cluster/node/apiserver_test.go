package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/rest"

	"github.com/podstream/podstream/internal/execsvc/cluster/apiclient"
)

// apiServer is as much of an API server as a node meets, reached without a network so that its time can be a test's.
type apiServer struct {
	t *testing.T

	mu sync.Mutex
	// away has every call fail before it arrives, hangs each watch be without an answer.
	away, hangs bool
	// deny, if set, is asked before a Node is created or changed; it gives the message of a refusal, or none.
	deny func(method string, before, after *v1.Node) string
	// drops, if set, removes the fields of a Node that the server doesn't have.
	drops func(*v1.Node)
	// onPatch, if set, is called with each patch before it is applied, without the lock. It returns whether the patch is lost.
	onPatch func(body string) (lost bool)
	// conflicts is how many patches to refuse for the sake of others.
	conflicts int
	// leaseConflicts is how many updates of the lease conflict.
	leaseConflicts int

	version int
	node    *v1.Node
	lease   *coordinationv1.Lease
	watches map[*io.PipeWriter]bool
	// calls are the methods and resources of the calls that arrived, and patches their bodies.
	calls   []string
	patches []string
	renewed []time.Time
}

func newAPIServer(t *testing.T) *apiServer {
	return &apiServer{t: t, watches: map[*io.PipeWriter]bool{}}
}

// client is one of the server.
func (a *apiServer) client() *apiclient.Client {
	a.t.Helper()
	client, err := apiclient.New(&rest.Config{
		Host: "http://api", QPS: -1, Transport: a,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return client
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
		return nil, errAway
	}
	watching := r.URL.Query().Get("watch") != ""
	a.calls = append(a.calls, callName(r, watching))
	switch {
	case watching && a.hangs:
		a.mu.Unlock()
		<-r.Context().Done()
		a.mu.Lock()
		return nil, r.Context().Err()
	case watching:
		return a.watch(r), nil
	case strings.Contains(r.URL.Path, "/leases"):
		return a.leases(r.Method, body), nil
	}
	if onPatch := a.onPatch; onPatch != nil && r.Method == http.MethodPatch {
		a.mu.Unlock()
		lost := onPatch(string(body))
		a.mu.Lock()
		if lost {
			return nil, errAway
		}
	}
	return a.nodes(r.Method, r.URL.Path, body), nil
}

func callName(r *http.Request, watching bool) string {
	what := "node"
	if strings.Contains(r.URL.Path, "/leases") {
		what = "lease"
	}
	if watching {
		return "WATCH " + what
	}
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "nodes") {
		return "LIST " + what
	}
	return r.Method + " " + what
}

func (a *apiServer) nodes(method, path string, body []byte) *http.Response {
	switch {
	case method == http.MethodPost:
		node := &v1.Node{}
		a.must(json.Unmarshal(body, node))
		// Admission comes before the store.
		if why := a.refusal(method, nil, node); why != "" {
			return failure(http.StatusForbidden, metav1.StatusReasonForbidden, why)
		}
		if a.node != nil {
			return failure(http.StatusConflict, metav1.StatusReasonAlreadyExists, "nodes \"n1\" already exists")
		}
		node.UID = types.UID(fmt.Sprint("uid-", a.version))
		a.store("ADDED", node)
		return a.answer(a.node)
	case method == http.MethodGet && strings.HasSuffix(path, "/nodes"):
		list := &v1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(a.version)}}
		if a.node != nil {
			list.Items = []v1.Node{*a.node}
		}
		return a.answer(list)
	case a.node == nil:
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound, "nodes \"n1\" not found")
	case method == http.MethodGet:
		return a.answer(a.node)
	}
	return a.patch(method, body)
}

// patch applies a strategic merge patch of the status, as an API server does.
func (a *apiServer) patch(method string, body []byte) *http.Response {
	a.patches = append(a.patches, string(body))
	var bound struct {
		Metadata struct {
			UID             types.UID
			ResourceVersion string
		}
	}
	a.must(json.Unmarshal(body, &bound))
	uid, version := bound.Metadata.UID, bound.Metadata.ResourceVersion
	if a.conflicts > 0 || uid != "" && uid != a.node.UID || version != "" && version != a.node.ResourceVersion {
		a.conflicts = max(a.conflicts-1, 0)
		return failure(http.StatusConflict, metav1.StatusReasonConflict, "Precondition failed")
	}
	before, err := json.Marshal(a.node)
	a.must(err)
	data, err := strategicpatch.StrategicMergePatch(before, body, v1.Node{})
	a.must(err)
	after := &v1.Node{}
	a.must(json.Unmarshal(data, after))
	after.Spec = a.node.Spec
	if why := a.refusal(method, a.node, after); why != "" {
		return failure(http.StatusForbidden, metav1.StatusReasonForbidden, why)
	}
	a.store("MODIFIED", after)
	return a.answer(a.node)
}

func (a *apiServer) refusal(method string, before, after *v1.Node) string {
	if a.deny == nil {
		return ""
	}
	return a.deny(method, before, after)
}

// store sets the node, nil for none, and notifies the watches.
func (a *apiServer) store(event string, node *v1.Node) {
	a.version++
	sent := node
	if node != nil && a.drops != nil {
		a.drops(node)
	}
	if event == "DELETED" {
		sent, a.node = a.node.DeepCopy(), nil
	} else {
		a.node = node
	}
	sent.ResourceVersion = strconv.Itoa(a.version)
	sent.APIVersion, sent.Kind = "v1", "Node"
	data, err := json.Marshal(map[string]any{"type": event, "object": sent})
	a.must(err)
	for w := range a.watches {
		go func() { _, _ = w.Write(append(data, '\n')) }()
	}
}

func (a *apiServer) watch(r *http.Request) *http.Response {
	reader, writer := io.Pipe()
	a.watches[writer] = true
	go func() {
		<-r.Context().Done()
		a.mu.Lock()
		delete(a.watches, writer)
		a.mu.Unlock()
		_ = writer.CloseWithError(r.Context().Err())
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: reader}
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
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data)),
	}
}
