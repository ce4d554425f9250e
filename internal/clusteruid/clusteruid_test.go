package clusteruid_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/podstream/podstream/internal/clusteruid"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

// client returns a client of a server, which may stand under a path.
func client(t *testing.T, url string) rest.Interface {
	t.Helper()
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, v1.SchemeGroupVersion)
	c, err := rest.RESTClientFor(&rest.Config{Host: url, APIPath: "/api", ContentConfig: rest.ContentConfig{
		GroupVersion: &v1.SchemeGroupVersion, NegotiatedSerializer: serializer.NewCodecFactory(scheme).WithoutConversion(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestGet(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	got, err := clusteruid.Get(t.Context(), client(t, server.URL()))
	if err != nil || got != server.Cluster() || got == "" {
		t.Errorf("the UID is %q, %v; want %q", got, err, server.Cluster())
	}
	requests := server.View().Requests
	if len(requests) != 1 || requests[0].Verb != "get" || requests[0].ResourceVersion != "" {
		t.Errorf("the requests are %+v; want one that no cache may answer", requests)
	}
	server.Answer(func(apitest.Request) *apitest.Reply {
		return apitest.Fail(http.StatusForbidden, metav1.StatusReasonForbidden, "no")
	})
	if got, err := clusteruid.Get(t.Context(), client(t, server.URL())); !errors.Is(err, clusteruid.ErrUnknown) || !apierrors.IsForbidden(err) || got != "" {
		t.Errorf("without the right it is %q, %v", got, err)
	}
	server.Answer(nil)
	server.Delete(&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: clusteruid.Namespace, Name: clusteruid.Service}})
	if got, err := clusteruid.Get(t.Context(), client(t, server.URL())); !errors.Is(err, clusteruid.ErrUnknown) || !apierrors.IsNotFound(err) || got != "" {
		t.Errorf("without the Service it is %q, %v", got, err)
	}
	server.Answer(func(apitest.Request) *apitest.Reply {
		return apitest.Fail(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "later")
	})
	if _, err := clusteruid.Get(t.Context(), client(t, server.URL())); err == nil || errors.Is(err, clusteruid.ErrUnknown) {
		t.Errorf("of a server that has failed it is unknown: %v", err)
	}
}

// A server may answer anything: what isn't the Service is an error, and an endless answer ends.
func TestGetInvalid(t *testing.T) {
	const head, tail = `{"kind":"Service","apiVersion":"v1","metadata":{"namespace":"default","name":"kubernetes","uid":"`, `"}}`
	for name, tc := range map[string]struct{ body, want string }{
		"the Service":      {head + "a-1" + tail, "a-1"},
		"nothing":          {"", ""},
		"a page":           {"<html>", ""},
		"another kind":     {strings.Replace(head, "Service", "Pod", 1) + "a" + tail, ""},
		"another name":     {strings.Replace(head, "kubernetes", "web", 1) + "a" + tail, ""},
		"another space":    {strings.Replace(head, "default", "shop", 1) + "a" + tail, ""},
		"no UID":           {head + tail, ""},
		"a long UID":       {head + strings.Repeat("a", 129) + tail, ""},
		"a UID with lines": {head + `a\nb` + tail, ""},
		"a large answer":   {head + "a" + tail + strings.Repeat(" ", 2<<20), ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/below/api/v1/namespaces/default/services/kubernetes" {
					t.Errorf("the path is %s", r.URL.Path)
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(tc.body))
			}))
			defer server.Close()
			got, err := clusteruid.Get(t.Context(), client(t, server.URL+"/below"))
			switch {
			case tc.want == "" && !errors.Is(err, clusteruid.ErrInvalid):
				t.Errorf("the UID is %q, %v; want that the answer is invalid", got, err)
			case tc.want != "" && (err != nil || got != types.UID(tc.want)):
				t.Errorf("the UID is %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

// A server that doesn't answer is given up with the caller.
func TestGetEnds(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(asked)
		<-release
	}))
	defer server.Close()
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := clusteruid.Get(ctx, client(t, server.URL)); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}
