package apiclient

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const protobuf = "application/vnd.kubernetes.protobuf"

// server records each request, and answers it with body, which is JSON.
type server struct {
	code                         int
	body                         string
	request, accept, contentType string
	sent                         []byte
}

// RoundTrip is part of http.RoundTripper.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.request, s.accept, s.contentType, s.sent = r.Method+" "+r.URL.RequestURI(), r.Header.Get("Accept"), r.Header.Get("Content-Type"), nil
	if r.Body != nil {
		s.sent, _ = io.ReadAll(r.Body)
	}
	return &http.Response{
		StatusCode: s.code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(s.body)), Request: r,
	}, nil
}

func clientOf(t *testing.T, s *server) *Client {
	t.Helper()
	c, err := New(&rest.Config{Host: "http://api", QPS: -1, Transport: s, ContentConfig: rest.ContentConfig{
		ContentType: protobuf, AcceptContentTypes: protobuf + ",application/json",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRequests: each resource is requested at its path, and its response is decoded into its type.
func TestRequests(t *testing.T) {
	ctx := t.Context()
	only := metav1.ListOptions{FieldSelector: "a=b", ResourceVersion: "7"}
	const query = "?fieldSelector=a%3Db&resourceVersion=7"
	for _, tc := range []struct {
		want, body string
		do         func(c *Client) (got any, err error)
	}{
		{"GET /api/v1/nodes/n", `{"kind":"Node","apiVersion":"v1","metadata":{"name":"got"}}`, func(c *Client) (any, error) {
			got, err := c.Nodes().Get(ctx, "n", metav1.GetOptions{})
			return got.Name, err
		}},
		{"PATCH /api/v1/nodes/n/status", `{"kind":"Node","apiVersion":"v1","metadata":{"name":"got"}}`, func(c *Client) (any, error) {
			got, err := c.Nodes().Patch(ctx, "n", types.StrategicMergePatchType, []byte("{}"), metav1.PatchOptions{}, "status")
			return got.Name, err
		}},
		{"GET /api/v1/services" + query, `{"kind":"ServiceList","apiVersion":"v1","items":[{"metadata":{"name":"got"}}]}`, func(c *Client) (any, error) {
			got, err := c.Services().List(ctx, only)
			return got.Items[0].Name, err
		}},
		{
			"GET /apis/node.k8s.io/v1/runtimeclasses" + query,
			`{"kind":"RuntimeClassList","apiVersion":"node.k8s.io/v1","items":[{"handler":"got"}]}`,
			func(c *Client) (any, error) {
				got, err := c.RuntimeClasses().List(ctx, only)
				return got.Items[0].Handler, err
			},
		},
		{
			"PUT /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n",
			`{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"got"}}`,
			func(c *Client) (any, error) {
				got, err := c.Leases("kube-node-lease").Update(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.UpdateOptions{})
				return got.Name, err
			},
		},
		{
			"POST /apis/certificates.k8s.io/v1/certificatesigningrequests",
			`{"kind":"CertificateSigningRequest","apiVersion":"certificates.k8s.io/v1","metadata":{"name":"got"}}`,
			func(c *Client) (any, error) {
				got, err := c.SigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{}, metav1.CreateOptions{})
				return got.Name, err
			},
		},
		{
			"GET /apis/certificates.k8s.io/v1/clustertrustbundles" + query,
			`{"kind":"ClusterTrustBundleList","apiVersion":"certificates.k8s.io/v1","items":[{"spec":{"trustBundle":"got"}}]}`,
			func(c *Client) (any, error) {
				got, err := c.TrustBundles().List(ctx, only)
				return got.Items[0].Spec.TrustBundle, err
			},
		},
		{
			"GET /apis/certificates.k8s.io/v1beta1/clustertrustbundles" + query,
			`{"kind":"ClusterTrustBundleList","apiVersion":"certificates.k8s.io/v1beta1","items":[{"spec":{"trustBundle":"got"}}]}`,
			func(c *Client) (any, error) {
				got, err := c.BetaTrustBundles().List(ctx, only)
				return got.Items[0].Spec.TrustBundle, err
			},
		},
		{
			"POST /apis/authentication.k8s.io/v1/tokenreviews",
			`{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"user":{"username":"got"}}}`,
			func(c *Client) (any, error) {
				got, err := c.TokenReviews().Create(ctx, &authenticationv1.TokenReview{}, metav1.CreateOptions{})
				return got.Status.User.Username, err
			},
		},
		{
			"POST /apis/authorization.k8s.io/v1/subjectaccessreviews",
			`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"reason":"got"}}`,
			func(c *Client) (any, error) {
				got, err := c.AccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{})
				return got.Status.Reason, err
			},
		},
		{
			"POST /api/v1/namespaces/ns/serviceaccounts/a/token",
			`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","status":{"token":"got"}}`,
			func(c *Client) (any, error) {
				got, err := c.CreateToken(ctx, "ns", "a", &authenticationv1.TokenRequest{})
				return got.Status.Token, err
			},
		},
		{"GET /api/v1/namespaces/ns/serviceaccounts/a", `{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"name":"got"}}`, func(c *Client) (any, error) {
			got, err := c.ServiceAccount(ctx, "ns", "a")
			return got.Name, err
		}},
		{
			"GET /apis/certificates.k8s.io/v1", `{"kind":"APIResourceList","apiVersion":"v1","resources":[{"name":"got"}]}`,
			func(c *Client) (any, error) {
				got, err := c.Served(ctx, schema.GroupVersion{Group: "certificates.k8s.io", Version: "v1"})
				return got[0].Name, err
			},
		},
		{"DELETE /api/v1/namespaces/ns/pods/p", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"got"}}`, func(c *Client) (any, error) {
			var got v1.Pod
			err := c.Core().Delete().Namespace("ns").Resource("pods").Name("p").Do(ctx).Into(&got)
			return got.Name, err
		}},
	} {
		s := &server{code: 200, body: tc.body}
		got, err := tc.do(clientOf(t, s))
		if err != nil || got != "got" || s.request != tc.want {
			t.Errorf("%s: got %v, %v with %s", tc.want, got, err, s.request)
		}
		if !strings.HasPrefix(s.accept, protobuf) {
			t.Errorf("%s: accepts %s", tc.want, s.accept)
		}
		// Protobuf of Kubernetes begins so. A patch is JSON.
		if s.sent != nil && !strings.HasPrefix(tc.want, "PATCH") && (s.contentType != protobuf || !bytes.HasPrefix(s.sent, []byte("k8s\x00"))) {
			t.Errorf("%s: sends %s: %q", tc.want, s.contentType, s.sent)
		}
	}
}

// TestStatus: an error of the API server is decoded.
func TestStatus(t *testing.T) {
	s := &server{code: 404, body: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"no such node","code":404}`}
	if _, err := clientOf(t, s).Nodes().Get(t.Context(), "n", metav1.GetOptions{}); !apierrors.IsNotFound(err) || err.Error() != "no such node" {
		t.Errorf("got %v", err)
	}
	if _, err := clientOf(t, s).Served(t.Context(), schema.GroupVersion{Group: "g", Version: "v1"}); !apierrors.IsNotFound(err) {
		t.Errorf("of a version that isn't served: %v", err)
	}
}

// TestRate: all groups share the rate limit, and a config without a burst is an error.
func TestRate(t *testing.T) {
	s := &server{code: 200, body: `{"kind":"Node","apiVersion":"v1"}`}
	c, err := New(&rest.Config{Host: "http://api", QPS: 0.001, Burst: 1, Transport: s})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Nodes().Get(t.Context(), "n", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	// The limiter doesn't wait for what won't come before the deadline.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := c.Leases("ns").Get(ctx, "n", metav1.GetOptions{}); err == nil || !strings.Contains(err.Error(), "rate limiter") {
		t.Errorf("the next request of another group: %v", err)
	}
	if _, err := New(&rest.Config{Host: "http://api", QPS: 1}); err == nil {
		t.Error("a limit without a burst is no error")
	}
}
