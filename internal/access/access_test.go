package access

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/certtest"
)

// TestAuthorize: the calls that each caller may make, by the flags, the access file and the method's role.
func TestAuthorize(t *testing.T) {
	ca := certtest.NewCA(t, "ca")
	files := newTLSFiles(t, ca, `
clients:
- {uid: 8, role: inspector, sources: [file]}
- {uid: 9, role: inspector}
- {uid: 11, role: operator}
- {commonName: web, role: consumer, nodes: [n1]}
- {commonName: ops, role: inspector}
- {commonName: "uid:0", role: consumer}
- {organization: all, role: consumer}
`)
	cfg := files.config()
	cfg.AllowUIDs = []uint32{7, 9}
	cfg.MinimumRole = func(method string) Role {
		switch method {
		case "/s/Commands":
			return Operator
		case "/s/Secrets":
			return Consumer
		default:
			return Inspector
		}
	}
	a := open(t, cfg, &strings.Builder{})
	cert := func(r certtest.Request) *AuthInfo { return client(t, a, ca, r) }
	own := uint32(os.Geteuid())
	for _, tc := range []struct {
		name     string
		info     *AuthInfo
		identity string
		role     Role
		pods     codes.Code // of a method for inspectors
		secrets  codes.Code // of a method for consumers
		message  string
	}{
		{"root", uid(a, 0), "uid:0", Operator, codes.OK, codes.OK, ""},
		{"the daemon's user", uid(a, own), uidIdentity(own), Operator, codes.OK, codes.OK, ""},
		{"an allowed user", uid(a, 7), "uid:7", Consumer, codes.OK, codes.OK, ""},
		{"a user of the file", uid(a, 8), "uid:8", Inspector, codes.OK, codes.PermissionDenied, "uid 8 is inspector; /s/Secrets is for the role consumer"},
		{"the file comes before the flag", uid(a, 9), "uid:9", Inspector, codes.OK, codes.PermissionDenied, "uid 9 is inspector"},
		{"an operator of the file", uid(a, 11), "uid:11", Operator, codes.OK, codes.OK, ""},
		{"another user", uid(a, 10), "uid:10", None, codes.PermissionDenied, codes.PermissionDenied, "no role for uid 10; the access file (--access-file) gives roles, and --allow-uid"},
		{"a consumer", cert(certtest.Request{CommonName: "web"}), "web", Consumer, codes.OK, codes.OK, ""},
		{"an inspector", cert(certtest.Request{CommonName: "ops"}), "ops", Inspector, codes.OK, codes.PermissionDenied, "CN=ops is inspector"},
		{"not in the file", cert(certtest.Request{CommonName: "x"}), "x", None, codes.PermissionDenied, codes.PermissionDenied, "no role for CN=x; the access file"},
		{"a local user's name", cert(certtest.Request{CommonName: "uid:0"}), "certificate:uid:0", None, codes.PermissionDenied, codes.PermissionDenied, "no role for CN=uid:0"},
		{"by URI", cert(certtest.Request{URI: "spiffe://x/y", DNS: "y", Organization: "all"}), "spiffe://x/y", Consumer, codes.OK, codes.OK, ""},
		{"by DNS name", cert(certtest.Request{DNS: "y", Organization: "all"}), "y", Consumer, codes.OK, codes.OK, ""},
		{"no name to be bound to", cert(certtest.Request{Organization: "all"}), "", None, codes.PermissionDenied, codes.PermissionDenied, "no role for a certificate without a name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			caller, err := authorize(a, tc.info, "/s/Pods")
			if status.Code(err) != tc.pods || caller.Identity != tc.identity || caller.Role != tc.role || caller.Peer != tc.info.Peer {
				t.Errorf("a method for inspectors: %+v, %v; want identity %q, role %s, %s", caller, err, tc.identity, tc.role, tc.pods)
			}
			_, err = authorize(a, tc.info, "/s/Secrets")
			if status.Code(err) != tc.secrets || !strings.Contains(status.Convert(err).Message(), tc.message) {
				t.Errorf("a method for consumers: %v; want %s with %q", err, tc.secrets, tc.message)
			}
			_, err = authorize(a, tc.info, "/s/Commands")
			if operator := tc.role == Operator; (err == nil) != operator || !operator && status.Code(err) != codes.PermissionDenied {
				t.Errorf("a method for operators: %v; want it to be let through: %v", err, operator)
			}
			if _, err := authorize(a, tc.info, "/grpc.health.v1.Health/Check"); err != nil {
				t.Errorf("a check of health: %v; want it for all callers", err)
			}
			if _, err := authorize(a, tc.info, "/grpc.health.v1.Health/Watch"); status.Code(err) != tc.pods {
				t.Errorf("a watch of health: %v; want %s, as it takes a role", err, tc.pods)
			}
		})
	}
	if c, _ := authorize(a, cert(certtest.Request{CommonName: "web"}), "/s/Pods"); len(c.Nodes) != 1 || c.Nodes[0] != "n1" || len(c.Sources) != 0 {
		t.Errorf("the scope of web is %+v; want node n1 and all sources", c)
	}
	if _, err := a.Authorize(context.Background(), "/s/Pods"); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a call without a connection: %v; want UNAUTHENTICATED", err)
	}
}

// TestRecheck: a connection stays as long as it would be accepted again as the same caller.
func TestRecheck(t *testing.T) {
	old, next := certtest.NewCA(t, "old"), certtest.NewCA(t, "next")
	const entries = "clients:\n- {commonName: a, role: consumer}\n- {commonName: b, role: consumer}\n"
	files := newTLSFiles(t, old, entries)
	cfg := files.config()
	now := clocktesting.NewFakePassiveClock(time.Now())
	cfg.Clock = now
	a := open(t, cfg, &strings.Builder{})
	aOld := client(t, a, old, certtest.Request{CommonName: "a"})
	bOld := client(t, a, old, certtest.Request{CommonName: "b"})
	root := uid(a, 0)
	check := func(step string, i *AuthInfo, want string) {
		t.Helper()
		err := a.Recheck(i)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", step, err, want)
		}
	}
	reload := func(name, text string) {
		files.write(t, name, []byte(text))
		a.Reload()
		a.Reload()
	}
	check("nothing changed", aOld, "")

	reload("access", strings.Replace(entries, "b, role: consumer", "b, role: consumer, nodes: [n1]", 1))
	check("another's scope changed", aOld, "")
	check("its scope changed", bOld, `from consumer to consumer of nodes ["n1"]`)
	check("root isn't concerned", root, "")
	reload("access", entries+"- {uid: 0, role: inspector}\n")
	check("root's role changed", root, "from operator to inspector")
	check("its own role is the same still", aOld, "")
	reload("access", "clients: []\n")
	check("its role is gone", aOld, "from consumer to none")
	reload("access", entries)

	both := string(old.PEM) + string(next.PEM)
	reload("ca", both)
	check("one more CA", aOld, "")
	aNext := client(t, a, next, certtest.Request{CommonName: "a"})
	reload("ca", string(next.PEM))
	check("its CA is gone", aOld, "isn't valid any more")
	check("its CA is the one that stays", aNext, "")

	now.SetTime(aNext.expires.Add(time.Second))
	check("it has expired", aNext, "has expired")
	if _, err := authorize(a, aNext, "/s/Pods"); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a call with an expired certificate: %v; want UNAUTHENTICATED", err)
	}
}

// TestKeepsFilesThatFit: certificate and key are replaced only together.
func TestKeepsFilesThatFit(t *testing.T) {
	ca := certtest.NewCA(t, "ca")
	files := newTLSFiles(t, ca, "clients: []\n")
	var log strings.Builder
	a := open(t, files.config(), &log)
	first := a.trust.Load()
	cert, key := ca.Issue(certtest.Request{Server: true})
	steps := []struct {
		name, file string
		data       []byte
		taken      bool
	}{
		{"half a certificate", "cert", cert[:len(cert)/2], false},
		{"a certificate without its key", "cert", cert, false},
		{"no CA", "ca", []byte("none"), false},
		{"the key too, but no CA", "key", key, false},
		{"all three", "ca", ca.PEM, true},
	}
	for _, s := range steps {
		files.write(t, s.file, s.data)
		for range 3 {
			a.Reload()
		}
		if taken := a.trust.Load() != first; taken != s.taken {
			t.Errorf("%s: taken over: %v; want %v\n%s", s.name, taken, s.taken, log.String())
		}
	}
	if n := strings.Count(log.String(), "can't be used"); n < 2 || n > 4 {
		t.Errorf("the log tells %d times of files that can't be used; want each problem once:\n%s", n, log.String())
	}
}

func TestNewRefuses(t *testing.T) {
	ca := certtest.NewCA(t, "ca")
	for _, tc := range []struct {
		name, want string
		change     func(*Config, tlsFiles)
	}{
		{"no key", "all three, or none", func(c *Config, _ tlsFiles) { c.KeyFile = "" }},
		{"only a CA", "all three, or none", func(c *Config, _ tlsFiles) { c.KeyFile, c.CertFile = "", "" }},
		{"a file that isn't there", "no such file", func(c *Config, _ tlsFiles) { c.File += "x" }},
		{"an empty file", "is empty", func(_ *Config, f tlsFiles) { f.write(t, "access", nil) }},
		{"a huge file", "larger than", func(_ *Config, f tlsFiles) { f.write(t, "ca", make([]byte, maxFile+1)) }},
		{"another key", "does not match", func(_ *Config, f tlsFiles) {
			_, key := ca.Issue(certtest.Request{})
			f.write(t, "key", key)
		}},
		{"no CA in the file", "no certificate", func(_ *Config, f tlsFiles) { f.write(t, "ca", []byte("x")) }},
		{"a mistake in the access file", "access:1: clients[0]", func(_ *Config, f tlsFiles) { f.write(t, "access", []byte("clients: [{uid: 1}]")) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files := newTLSFiles(t, ca, "clients: []\n")
			cfg := files.config()
			tc.change(&cfg, files)
			if a, err := New(cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("New: %v, %v; want an error with %q", a, err, tc.want)
			}
		})
	}
}

// TestOtherUsers: a socket is opened to all users only if one of them has a role.
func TestOtherUsers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access")
	for _, tc := range []struct {
		name, entries string
		allow         []uint32
		want          bool
	}{
		{"none", "clients: []", nil, false},
		{"certificates only", "clients: [{commonName: a, role: consumer}]", nil, false},
		{"root only", "clients: [{uid: 0, role: inspector}]", []uint32{0}, false},
		{"an allowed user", "clients: []", []uint32{7}, true},
		{"a user of the file", "clients: [{uid: 7, role: inspector}]", nil, true},
	} {
		certtest.WriteFile(t, file, []byte(tc.entries))
		if got := open(t, Config{File: file, AllowUIDs: tc.allow}, &strings.Builder{}).OtherUsers(); got != tc.want {
			t.Errorf("%s: %v; want %v", tc.name, got, tc.want)
		}
	}
}
