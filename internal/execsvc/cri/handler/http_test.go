package handler

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestHTTPProbeOutcomes(t *testing.T) {
	target := serve(t, plain, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok":
			_, _ = w.Write([]byte("fine " + r.URL.RawQuery))
		case "/long":
			_, _ = w.Write([]byte(strings.Repeat("x", 2*maxOutput)))
		case "/latin1":
			_, _ = w.Write([]byte("caf\xe9"))
		case "/local":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/away":
			w.Header().Set("Location", "http://example.invalid/")
			w.WriteHeader(http.StatusFound)
			_, _ = w.Write([]byte("gone"))
		case "/headers":
			w.Header().Set("X-Long", strings.Repeat("x", 2*maxHeaders))
		case "/hang":
			<-r.Context().Done()
		default:
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte("secret"))
		}
	})
	for path, tc := range map[string]struct {
		outcome Outcome
		output  string // the output, or a part of it
	}{
		"/ok?a=b":  {Success, "fine a=b"},
		"ok":       {Success, "fine "},
		"/long":    {Success, strings.Repeat("x", maxOutput)},
		"/latin1":  {Success, "caf\uFFFD"},
		"/local":   {Success, "fine "},
		"/loop":    {Failure, "stopped after 10 redirects"},
		"/away":    {Warning, "Probe terminated redirects, Response body: gone"},
		"/hang":    {Failure, "Client.Timeout exceeded"},
		"/headers": {Failure, "server response headers exceeded"},
		"/broken":  {Failure, "HTTP probe failed with statuscode: 500"},
		"/%zz":     {Failure, "HTTP probe failed with statuscode: 500"}, // no URL, but sent
	} {
		t.Run(path, func(t *testing.T) {
			outcome, output, err := New(Config{}).Probe(t.Context(), target, httpProbe(v1.HTTPGetAction{Path: path}))
			if outcome != tc.outcome || err != nil || !strings.Contains(output, tc.output) || len(output) > maxOutput {
				t.Errorf("got %v %q %v, want %v %q", outcome, output, err, tc.outcome, tc.output)
			}
			if strings.Contains(output, "secret") {
				t.Errorf("the body of a failure was told: %q", output)
			}
		})
	}
}

func TestHTTPProbeRequest(t *testing.T) {
	var got *http.Request
	target := serve(t, plain, func(_ http.ResponseWriter, r *http.Request) { got = r })
	for name, tc := range map[string]struct {
		headers []v1.HTTPHeader
		host    string // empty: the address
		want    http.Header
	}{
		"none": {nil, "", http.Header{"Accept": {"*/*"}, "User-Agent": {"kube-probe/1.37"}}},
		"the author's": {
			[]v1.HTTPHeader{{Name: "Host", Value: "app.example"}, {Name: "x-a", Value: "1"}, {Name: "X-A", Value: "2"},
				{Name: "User-Agent", Value: "mine"}, {Name: "Accept", Value: "text/plain"}},
			"app.example", http.Header{"Accept": {"text/plain"}, "User-Agent": {"mine"}, "X-A": {"1", "2"}},
		},
		"taken out": {
			[]v1.HTTPHeader{{Name: "User-Agent"}, {Name: "Accept"}}, "", http.Header{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(Config{Version: "1.37"})
			if outcome, output, err := r.Probe(t.Context(), target, httpProbe(v1.HTTPGetAction{HTTPHeaders: tc.headers})); outcome != Success {
				t.Fatalf("%v %q %v", outcome, output, err)
			}
			tc.want.Set("Connection", "close") // each request has its own
			if diff := cmp.Diff(tc.want, got.Header); diff != "" {
				t.Error(diff)
			}
			if tc.host != "" && got.Host != tc.host {
				t.Errorf("host %q, want %q", got.Host, tc.host)
			}
		})
	}
}

func TestHTTPSProbeVerifiesNothingAndSpeaksHTTP2(t *testing.T) {
	target := serve(t, withTLS, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Proto)) })
	outcome, output, err := New(Config{}).Probe(t.Context(), target, httpProbe(v1.HTTPGetAction{Scheme: v1.URISchemeHTTPS}))
	if outcome != Success || output != "HTTP/2.0" {
		t.Errorf("got %v %q %v", outcome, output, err)
	}
}

func TestHTTPProbeGoesPastTheNodesProxy(t *testing.T) {
	if proxy := New(Config{}).transport.Proxy; proxy != nil {
		t.Error("requests to containers go to a proxy")
	}
}

func TestHTTPProbeOverIPv6(t *testing.T) {
	target := serve(t, func(s *httptest.Server) {
		_ = s.Listener.Close()
		s.Listener = listen(t, "[::1]:0")
		s.Start()
	}, func(http.ResponseWriter, *http.Request) {})
	if target.PodIP != "::1" {
		t.Fatalf("the server is at %s", target.PodIP)
	}
	if outcome, output, err := New(Config{}).Probe(t.Context(), target, httpProbe(v1.HTTPGetAction{Path: "/"})); outcome != Success {
		t.Errorf("got %v %q %v", outcome, output, err)
	}
}

func TestPorts(t *testing.T) {
	target := Target{Container: "main", PodIP: "10.0.0.7", Ports: []v1.ContainerPort{{Name: "web", ContainerPort: 8080}}}
	for _, tc := range []struct {
		host string
		port intstr.IntOrString
		want string // empty: an error
	}{
		{"", intstr.FromInt32(80), "10.0.0.7:80"},
		{"", intstr.FromString("web"), "10.0.0.7:8080"},
		{"", intstr.FromString("81"), "10.0.0.7:81"},
		{"fd00::1", intstr.FromInt32(80), "[fd00::1]:80"},
		{"", intstr.FromString("nope"), ""},
		{"", intstr.FromInt32(0), ""},
		{"", intstr.FromInt32(65536), ""},
	} {
		got, err := address(target, tc.host, tc.port)
		if got != tc.want || (err != nil) != (tc.want == "") {
			t.Errorf("address(%q, %s) = %q, %v; want %q", tc.host, tc.port.String(), got, err, tc.want)
		}
	}
	if got, err := address(Target{}, "", intstr.FromInt32(80)); err == nil {
		t.Errorf("a pod without an address is at %q", got)
	}
}
