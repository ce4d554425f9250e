package access

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAccessFileMistakes: a mistake is reported with file and line, and nothing of the file is applied.
func TestAccessFileMistakes(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", "# only a comment\n", `it has no list "clients"`},
		{"another thing", "rules: []\n", "line 1: field rules not found"},
		{"no list", "clients:\n", `it has no list "clients"`},
		{"not YAML", "clients: [\n", "did not find"},
		{"an unknown field", "clients:\n- commonName: a\n  role: consumer\n  node: n1\n", "line 4: field node not found"},
		{"a field twice", "clients:\n- uid: 1\n  role: consumer\n  role: inspector\n", `line 4: mapping key "role" already defined`},
		{"no caller", "clients:\n- role: consumer\n", "a:2: clients[0]: the entry names no callers"},
		{"a scope is no matcher", "clients:\n- {role: consumer, nodes: [n]}\n", "a:2: clients[0]: the entry names no callers"},
		{"empty matcher", "clients:\n- {commonName: a, role: consumer}\n- {commonName: b, organization: '', role: consumer}\n", "a:3: clients[1]: organization is empty"},
		{"both kinds", "clients:\n- {uid: 1, commonName: a, role: consumer}\n", "no caller has both"},
		{"no role", "clients:\n- commonName: a\n", `role: ""; want operator, consumer, inspector or deployer`},
		{"role none", "clients:\n- {commonName: a, role: none}\n", `role: "none"`},
		{"unknown role", "clients:\n- {commonName: a, role: Consumer}\n", `role: "Consumer"`},
		{"empty scope", "clients:\n- {commonName: a, role: consumer, sources: []}\n", "sources is empty"},
		{"pattern", "clients:\n- {commonName: a, role: consumer, nodes: ['n*']}\n", `nodes[0]: "n*"; want a name`},
		{"blank scope", "clients:\n- {commonName: a, role: consumer, nodes: [n, '']}\n", `nodes[1]: ""`},
		{"negative uid", "clients:\n- {uid: -1, role: consumer}\n", "line 2: cannot unmarshal"},
		{"no user", "clients:\n- {uid: 4294967295, role: consumer}\n", "is no user's"},
		{"never reached", "clients:\n- {uid: 7, role: inspector}\n- {uid: 8, role: inspector}\n- {uid: 7, role: consumer}\n", "a:4: clients[2]: clients[0] matches the same"},
		{"nodes of names", "clients:\n- {systemNodes: true, commonName: a, role: consumer}\n", "a:2: clients[0]: systemNodes determines the callers"},
		{"nodes of a user", "clients:\n- {systemNodes: true, uid: 1, role: consumer}\n", "systemNodes determines the callers"},
		{"nodes of other nodes", "clients:\n- {systemNodes: true, role: consumer, nodes: [a]}\n", "nodes is given"},
		{"nodes that operate", "clients:\n- {systemNodes: true, role: operator}\n", "with systemNodes it is consumer"},
		{"no nodes", "clients:\n- {systemNodes: false, role: consumer}\n", "the entry names no callers"},
		{"nodes twice", "clients:\n- {systemNodes: true, role: consumer}\n- {systemNodes: true, role: consumer, sources: [a]}\n", "a:3: clients[1]: clients[0] matches the same"},
		{"two documents", "clients: []\n---\nclients:\n- {uid: 7, role: consumer}\n", "more than one YAML document"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := parseRules("a", []byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "a:") {
				t.Errorf("parse %q: %v, %v; want an error that begins with the file and has %q", tc.text, r, err, tc.want)
			}
		})
	}
}

// TestFirstMatchWins: an entry matches by all the fields that it gives, and the first one that matches decides.
func TestFirstMatchWins(t *testing.T) {
	r, err := parseRules("a", []byte(`
clients:
- {commonName: api, organization: ops, role: consumer}
- {commonName: api, role: inspector, nodes: [n1]}
- {uri: "spiffe://x/y", dns: y.example, role: consumer, sources: ["file:extra", api]}
- {organization: ops, role: inspector}
- {uid: 7, role: inspector}
`))
	if err != nil {
		t.Fatal(err)
	}
	uri, err := url.Parse("spiffe://x/y")
	if err != nil {
		t.Fatal(err)
	}
	cert := func(cn string, organizations ...string) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: cn, Organization: organizations}}
	}
	withURI := cert("y")
	withURI.URIs = []*url.URL{{Scheme: "spiffe", Host: "other"}, uri}
	withBoth := cert("y")
	withBoth.URIs, withBoth.DNSNames = withURI.URIs, []string{"x.example", "y.example"}
	for _, tc := range []struct {
		name string
		uid  uint32
		cert *x509.Certificate
		want int // the entry; -1: none
	}{
		{"all fields", noUID, cert("api", "dev", "ops"), 0},
		{"by the name alone", noUID, cert("api", "dev"), 1},
		{"by the organization", noUID, cert("other", "ops"), 3},
		{"one of two fields", noUID, withURI, -1},
		{"URI and DNS name", noUID, withBoth, 2},
		{"a stranger", noUID, cert("stranger"), -1},
		{"names are exact", noUID, cert("API"), -1},
		{"a uid", 7, nil, 4},
		{"another uid", 8, nil, -1},
		{"no certificate has a uid", 7, cert("stranger"), -1},
	} {
		got := -1
		if e := r.find(tc.uid, tc.cert, &verified{client: true}); e != nil {
			for i := range r.entries {
				if &r.entries[i] == e {
					got = i
				}
			}
		}
		if got != tc.want {
			t.Errorf("%s: entry %d; want %d", tc.name, got, tc.want)
		}
	}
}

// FuzzParseRules: no text crashes the daemon, and each accepted entry has a matcher and a role.
func FuzzParseRules(f *testing.F) {
	f.Add([]byte("clients:\n- {commonName: api, organization: ops, role: consumer, nodes: [n1]}\n"))
	f.Add([]byte("clients:\n- uid: 7\n  role: inspector\n"))
	f.Add([]byte("clients:\n- {systemNodes: true, role: consumer, sources: [api]}\n"))
	f.Add([]byte("clients:\n- {uid: 1, role: deployer, namespaces: [a], podSecurity: restricted, maxPods: 1, maxBytes: 1Ki}\n"))
	f.Add([]byte("clients:\n- {uid: 1, roles: [deployer, operator], namespaces: ['*']}\n"))
	f.Add([]byte("clients: &a [*a]\n"))
	f.Add([]byte("clients:\n- &x {uid: 1, role: consumer}\n- <<: *x\n  uid: 2\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseRules("a", data)
		if err != nil {
			return
		}
		for i, e := range r.entries {
			if e.role < Deployer || e.role > Operator || (e.role == Deployer) != (e.grants != nil && len(e.Sources) > 0) && e.Roles == nil {
				t.Errorf("entry %d has %v; want a role", i, e.role)
			}
			if e.matches(noUID, &x509.Certificate{}, &verified{client: true, node: true}) {
				t.Errorf("entry %d matches a certificate without any name", i)
			}
		}
	})
}

// TestFiles: a change is taken over once it has been the same at two readings; bad files are reported once, and the
// last good ones stay.
func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	entry := func(uid string) string { return "- {uid: " + uid + ", role: consumer}\n" }
	write("clients:\n" + entry("7"))
	var log strings.Builder
	a := open(t, Config{File: path}, &log)
	for _, text := range []string{"clients: []\n", "clients:\n" + entry("7")} {
		write(text)
		a.Reload()
		a.Reload()
	}
	if n := strings.Count(log.String(), "restart to change that"); n != 1 {
		t.Errorf("that other users have roles now is told %d times; want once, as sockets don't follow:\n%s", n, log.String())
	}
	check := func(step string, want ...uint32) {
		t.Helper()
		var got []uint32
		for _, uid := range []uint32{7, 8, 9} {
			if a.rules.Load().find(uid, nil, nil) != nil {
				got = append(got, uid)
			}
		}
		if len(got) != len(want) || len(want) > 0 && got[0] != want[0] {
			t.Errorf("%s: uids %v have a role; want %v", step, got, want)
		}
	}
	check("at the start", 7)

	write("clients:\n" + entry("8"))
	a.Reload()
	check("a change that was seen once", 7)
	write("clients:\n" + entry("9"))
	a.Reload()
	check("a change of the change", 7)
	a.Reload()
	check("a change that was seen twice", 9)

	for _, bad := range []string{"clients:\n- {uid: 7, role: cons", "", "clients: [{uid: 7}]"} {
		before := strings.Count(log.String(), "can't be used")
		write(bad)
		for range 4 {
			a.Reload()
		}
		check("the bad text "+bad, 9)
		if n := strings.Count(log.String(), "can't be used") - before; n != 1 {
			t.Errorf("the bad text %q is told of %d times; want once:\n%s", bad, n, log.String())
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	a.Reload()
	a.Reload()
	check("no file", 9)
	write("clients:\n" + entry("9"))
	a.Reload()
	if !strings.Contains(log.String(), "the last good version again") {
		t.Errorf("the log doesn't tell that the file is well again:\n%s", log.String())
	}
	write("clients: []\n")
	a.Reload()
	a.Reload()
	check("an empty list")
}
