package registry

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/sources/oci/ocitest"
)

var login = Login{Username: "robot", Password: "hunter2"}

// authorizations are those of requests, in their order, without doubles.
func authorizations(requests []*http.Request) string {
	var out []string
	for _, r := range requests {
		got := r.Header.Get("Authorization")
		if user, password, ok := r.BasicAuth(); ok {
			got = user + ":" + password
		}
		if got == "" {
			got = "none"
		}
		if len(out) == 0 || out[len(out)-1] != got {
			out = append(out, got)
		}
	}
	return strings.Join(out, ", ")
}

// wantsBasic is a registry that takes a name and a password.
func wantsBasic(w http.ResponseWriter, r *http.Request) bool {
	if user, password, _ := r.BasicAuth(); user == login.Username && password == login.Password {
		return false
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
	w.WriteHeader(http.StatusUnauthorized)
	return true
}

// wantsToken is a registry that takes tokens of the realm.
func wantsToken(realm string) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" || r.Header.Get("Authorization") == "Bearer tok" {
			return r.URL.Path == "/token" && giveToken(w, r)
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm=%q,service="s"`, realm))
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
}

func giveToken(w http.ResponseWriter, _ *http.Request) bool {
	_, _ = w.Write([]byte(`{"token":"tok"}`))
	return true
}

// TestCredentials: name and password are sent to the registry, and the token that they gave.
func TestCredentials(t *testing.T) {
	hub, digest, layer := pushed(t)
	for name, tc := range map[string]struct {
		act  func(w http.ResponseWriter, r *http.Request) bool
		want string
	}{
		"basic": {wantsBasic, "none, robot:hunter2"},
		"token": {wantsToken("http://" + hub.Addr + "/token"), "none, robot:hunter2, Bearer tok"},
	} {
		hub.Requests()
		hub.Intercept(tc.act)
		r := open(t, Config{Reference: reference(t, hub.Addr+"/pods:v1")}, login, nil)
		if got, err := r.Resolve(); err != nil || got != digest {
			t.Errorf("%s: %s, %v", name, got, err)
		}
		if _, err := r.Blob(digestOf(layer), int64(len(layer))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := authorizations(hub.Requests()); got != tc.want {
			t.Errorf("%s: the requests had %q; want %q", name, got, tc.want)
		}
		refused(t, name, resolved(open(t, Config{Reference: reference(t, hub.Addr+"/none:v1")}, Login{"robot", "wrong hunter2"}, nil)), "status 40")
	}
}

// TestOtherLogin: another login isn't served with the token of the former one.
func TestOtherLogin(t *testing.T) {
	hub, _, _ := pushed(t)
	hub.Intercept(wantsToken("http://" + hub.Addr + "/token"))
	client := New(Config{Reference: reference(t, hub.Addr+"/pods:v1")})
	for _, l := range []Login{login, {"other", "x"}, {}} {
		hub.Requests()
		r := client.Open(t.Context(), l, nil)
		if _, err := r.Resolve(); err != nil {
			t.Fatal(err)
		}
		r.Close()
		want := "none, " + l.Username + ":" + l.Password + ", Bearer tok"
		if l == (Login{}) {
			want = "none, Bearer tok"
		}
		if got := authorizations(hub.Requests()); got != want {
			t.Errorf("the requests of %q had %q; want %q", l.Username, got, want)
		}
	}
}

// TestRedirects: another host gets no credentials. It can't direct them to a path of the registry, either.
func TestRedirects(t *testing.T) {
	w := newWorld(t, map[string]string{"other.test": "127.0.0.1"})
	hub, port := w.hub("localhost")
	other, otherPort := w.hub("other.test")
	layer := ocitest.Archive(t, map[string]string{"web.yaml": ocitest.Pod("web", "v1")})
	digest := digestOf(layer)
	own := "localhost:" + port
	other.PutBlob("pods", layer)
	for name, act := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"basic": wantsBasic, "token": wantsToken("https://" + own + "/token"),
	} {
		hub.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			switch {
			case strings.HasPrefix(r.URL.Path, "/back/"):
				w.Header().Set("Content-Length", fmt.Sprint(len(layer)))
				_, _ = w.Write(layer)
			case act(w, r):
			case strings.Contains(r.URL.Path, "/blobs/"):
				http.Redirect(w, r, "https://other.test:"+otherPort+r.URL.Path, http.StatusTemporaryRedirect)
			default:
				return false
			}
			return true
		})
		for _, back := range []bool{false, true} {
			other.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if back {
					http.Redirect(w, r, "https://"+own+"/back/"+digest, http.StatusFound)
				}
				return back
			})
			hub.Requests()
			other.Requests()
			r := open(t, Config{Reference: reference(t, own+"/pods:v1"), Proxy: http.ProxyURL(nil)}, login, w.trust())
			if _, err := r.Blob(digest, int64(len(layer))); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			requests := other.Requests()
			if got := authorizations(requests); got != "none" || requests[0].Header.Get("Referer") != "" {
				t.Errorf("%s: the other host got %q, %v", name, got, requests[0].Header)
			}
			all := hub.Requests()
			if last := all[len(all)-1]; back && (!strings.HasPrefix(last.URL.Path, "/back/") || last.Header.Get("Authorization") != "") {
				t.Errorf("%s: what the other host chose was asked for with %q: %s", name, last.Header.Get("Authorization"), last.URL.Path)
			}
		}
	}
}

// TestNames: a name that resolves to a link-local address isn't connected to: the registry's, one that it redirects to,
// and its token server's. A name that resolves to loopback is connected to only if it is the registry's own.
func TestNames(t *testing.T) {
	w := newWorld(t, map[string]string{
		"registry.test": "127.0.0.1", "other.test": "127.0.0.1", "metadata.test": "169.254.169.254", "metadata6.test": "fe80::1", "aws.test": "fd00:ec2::254",
	})
	hub, port := w.hub("registry.test", "other.test")
	layer := ocitest.Archive(t, nil)
	digest := hub.PutManifest("pods", "v1", ocitest.ManifestType, hub.ManifestOf("pods", layer, time.Time{}))
	own := Config{Reference: reference(t, "registry.test:"+port+"/pods:v1"), Proxy: http.ProxyURL(nil)}
	if got, err := open(t, own, login, w.trust()).Resolve(); err != nil || got != digest {
		t.Fatalf("the registry: %s, %v", got, err)
	}
	for _, host := range []string{"metadata.test", "metadata6.test", "aws.test"} {
		cfg := Config{Reference: reference(t, host+":"+port+"/pods:v1"), Insecure: true, Proxy: http.ProxyURL(nil)}
		refused(t, host, resolved(open(t, cfg, Login{}, w.trust())), string(errLinkLocal))
		hub.Intercept(answer("/blobs/", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://"+host+":"+port+"/x", http.StatusFound)
		}))
		refused(t, "a redirect to "+host, blob(digestOf(layer), int64(len(layer)))(open(t, own, Login{}, w.trust())),
			"redirected to "+host+":"+port+": "+string(errLinkLocal))
		hub.Intercept(wantsToken("https://" + host + ":" + port + "/token"))
		refused(t, "a token of "+host, resolved(open(t, own, Login{}, w.trust())), string(errLinkLocal))
		cfg = own
		cfg.TokenHost = host + ":" + port
		refused(t, "a token of the configured "+host, resolved(open(t, cfg, login, w.trust())), string(errLinkLocal))
	}
	hub.Intercept(answer("/blobs/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://other.test:"+port+"/x", http.StatusFound)
	}))
	refused(t, "a redirect to loopback", blob(digestOf(layer), int64(len(layer)))(open(t, own, Login{}, w.trust())),
		"redirected to other.test:"+port+": "+string(errLoopback))
	refused(t, "no such name", resolved(open(t, Config{Reference: reference(t, "none.test/pods:v1"), Proxy: http.ProxyURL(nil)}, Login{}, w.trust())),
		"no such host none.test")
	// TLS is verified for the registry's name.
	wrong := Config{Reference: reference(t, "registry.test:"+port+"/pods:v1"), Proxy: http.ProxyURL(nil)}
	refused(t, "an unknown CA", resolved(open(t, wrong, login, nil)), "unknown authority")
}

// TestTokenHost: the credentials are sent to a token server on another host only if it is configured. Without
// credentials, any may give a token.
func TestTokenHost(t *testing.T) {
	w := newWorld(t, map[string]string{"registry.test": "127.0.0.1", "auth.test": "127.0.0.1"})
	hub, port := w.hub("registry.test")
	auth, authPort := w.hub("auth.test")
	hub.PutManifest("pods", "v1", ocitest.ManifestType, hub.ManifestOf("pods", ocitest.Archive(t, nil), time.Time{}))
	hub.Intercept(wantsToken("https://auth.test:" + authPort + "/token"))
	auth.Intercept(giveToken)
	for _, tc := range []struct {
		name, token string
		login       Login
		want, sent  string
	}{
		{"not configured", "", login, "asks for the credentials at auth.test:" + authPort + ", which isn't its own host: they are sent there only with tokenHost: auth.test", ""},
		{"another one is configured", "auth.example", login, "asks for the credentials at auth.test", ""},
		{"another port is configured", "auth.test", login, "asks for the credentials at auth.test", ""},
		{"configured", "auth.test:" + authPort, login, "", "robot:hunter2"},
		{"no credentials, and configured", "auth.test:" + authPort, Login{}, "", "none"},
		// It is on loopback here, and other hosts may not be.
		{"no credentials", "", Login{}, string(errLoopback), ""},
	} {
		auth.Requests()
		cfg := Config{Reference: reference(t, "registry.test:"+port+"/pods:v1"), TokenHost: tc.token, Proxy: http.ProxyURL(nil)}
		err := resolved(open(t, cfg, tc.login, w.trust()))
		if tc.want == "" && err != nil {
			t.Errorf("%s: %v", tc.name, err)
		} else if tc.want != "" {
			refused(t, tc.name, err, tc.want)
		}
		if got := authorizations(auth.Requests()); got != tc.sent {
			t.Errorf("%s: the token server got %q; want %q", tc.name, got, tc.sent)
		}
	}
}
