package registry

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/sources/oci/ocitest"
)

// TestPlain: plain HTTP is used on loopback, or if the configuration says so.
func TestPlain(t *testing.T) {
	w := newWorld(t, map[string]string{"registry.test": "127.0.0.1"})
	hub, digest, _ := pushed(t)
	_, port, _ := strings.Cut(hub.Addr, ":")
	for host, tc := range map[string]struct {
		insecure bool
		want     string
	}{
		"127.0.0.1": {false, ""}, "localhost": {false, ""}, "registry.test": {false, "HTTP response to HTTPS client"}, "registry.test ": {true, ""},
	} {
		ref := strings.TrimSpace(host) + ":" + port + "/pods:v1"
		var parsed = reference(t, ref)
		if tc.insecure {
			parsed = insecure(t, ref)
		}
		r := open(t, Config{Reference: parsed, Insecure: tc.insecure, Proxy: http.ProxyURL(nil)}, login, w.trust())
		got, err := r.Resolve()
		if tc.want == "" && (err != nil || got != digest) {
			t.Errorf("%q: %s, %v", host, got, err)
		} else if tc.want != "" {
			refused(t, host, err, tc.want)
		}
	}
	// A private address is asked by HTTP too, by go-containerregistry; the guard refuses that.
	hub.Requests()
	cfg := Config{Reference: reference(t, "10.0.0.1:5000/pods:v1"), Proxy: http.ProxyURL(nil)}
	client := New(cfg)
	client.guard.begin(t.Context(), w.trust(), false)
	request := &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: "10.0.0.1:5000"}}
	if _, err := client.guard.admit(client.guard.now(), request); !errors.Is(err, plainError{}) {
		t.Errorf("plain HTTP at a private address: %v", err)
	}
}

// TestPlainTokenHost: a registry on loopback can't have the credentials sent by plain HTTP to a token server that isn't.
func TestPlainTokenHost(t *testing.T) {
	newWorld(t, map[string]string{"auth.test": "127.0.0.1"})
	hub, _, _ := pushed(t)
	auth := ocitest.New(t, ocitest.Config{})
	auth.Intercept(giveToken)
	_, port, _ := strings.Cut(auth.Addr, ":")
	for _, tc := range []struct {
		realm    string
		insecure bool
		want     string
	}{{"auth.test:" + port, false, ""}, {"auth.test:" + port, true, "robot:hunter2"}} {
		hub.Intercept(wantsToken("http://" + tc.realm + "/token"))
		cfg := Config{Reference: reference(t, hub.Addr+"/pods:v1"), TokenHost: tc.realm, Insecure: tc.insecure, Proxy: http.ProxyURL(nil)}
		err := resolved(open(t, cfg, login, nil))
		if got := authorizations(auth.Requests()); got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s, insecure: %t: the token server got %q, and the error is %v; want %q", tc.realm, tc.insecure, got, err, tc.want)
		}
	}
}

// TestProxy: a proxy is used as it is configured, wherever it is, but not for an address that would be refused.
func TestProxy(t *testing.T) {
	proxy := ocitest.New(t, ocitest.Config{})
	proxy.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusBadGateway)
		return true
	})
	for host, want := range map[string]string{
		"registry.example": "CONNECT registry.example:443", "169.254.169.254": "", "[fe80::1]:443": "", "metadata.2852039166:443": "",
	} {
		cfg := Config{Reference: reference(t, host+"/pods:v1"), Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy.Addr})}
		if err := resolved(open(t, cfg, Login{}, nil)); err == nil {
			t.Errorf("%s: no error", host)
		}
		var asked []string
		for _, r := range proxy.Requests() {
			asked = append(asked, r.Method+" "+r.Host)
		}
		if got := strings.Join(asked, ", "); got != want {
			t.Errorf("%s: the proxy got %q; want %q", host, got, want)
		}
	}
}

// TestPlainRedirect: HTTP isn't used at another host, and not at one that isn't on loopback.
func TestPlainRedirect(t *testing.T) {
	hub, _, layer := pushed(t)
	for to, want := range map[string]string{
		"http://127.0.0.1:1/x": string(errScheme), "http://registry.example/x": string(errScheme), "ftp://registry.example/x": string(errScheme),
		"http://169.254.169.254/latest": "private", "https://169.254.169.254/latest": "private", "https://[fe80::1]/x": "private",
		"https://0xa9fea9fe/": "private", "https://[64:ff9b::a9fe:a9fe]/": string(errLinkLocal), "https://100.100.100.200/": string(errLinkLocal),
		"https://1.2.3.4.5/": string(errNoAddress),
	} {
		hub.Intercept(answer("/blobs/", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }))
		r := open(t, Config{Reference: reference(t, hub.Addr+"/pods:v1")}, Login{}, nil)
		if err := blob(digestOf(layer), int64(len(layer)))(r); want == "private" {
			if err == nil || !strings.Contains(err.Error(), "private") && !strings.Contains(err.Error(), "link-local") {
				t.Errorf("%s: %v", to, err)
			}
		} else {
			refused(t, to, err, want)
		}
	}
}
