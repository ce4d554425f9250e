package access

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/certtest"
)

// TestDeployerMistakes: an entry of a deployer says which namespaces it may write to, and no other entry has its fields.
func TestDeployerMistakes(t *testing.T) {
	for _, tc := range []struct{ name, entry, want string }{
		{"no namespaces", "role: deployer", "namespaces: there is none"},
		{"empty namespaces", "role: deployer, namespaces: []", "namespaces: there is none"},
		{"a pattern", "role: deployer, namespaces: ['team-*']", `namespaces[0]: "team-*"`},
		{"all and one", "role: deployer, namespaces: [a, '*']", `namespaces[1]: "*"`},
		{"a path", "role: deployer, namespaces: [../x]", `namespaces[0]: "../x"`},
		{"an unknown level", "role: deployer, namespaces: [a], podSecurity: Baseline", `podSecurity: "Baseline"; want restricted, baseline or privileged`},
		{"an empty level", "role: deployer, namespaces: [a], podSecurity: ''", `podSecurity: ""`},
		{"no pods", "role: deployer, namespaces: [a], maxPods: 0", "maxPods: 0; want 1 or more"},
		{"no bytes", "role: deployer, namespaces: [a], maxBytes: 0", `maxBytes: "0"`},
		{"odd bytes", "role: deployer, namespaces: [a], maxBytes: many", `maxBytes: "many"`},
		{"too many bytes", "role: deployer, namespaces: [a], maxBytes: 2Gi", `maxBytes: "2Gi"`},
		{"a scope", "role: deployer, namespaces: [a], sources: [file]", "a deployer sees only the pods that it has applied"},
		{"nodes", "role: deployer, namespaces: [a], nodes: [n]", "a deployer sees only the pods that it has applied"},
		{"an operator's namespaces", "role: operator, namespaces: [a]", "are for the role deployer"},
		{"a consumer's level", "role: consumer, podSecurity: privileged", "are for the role deployer"},
		{"role and roles", "role: operator, roles: [deployer], namespaces: [a]", "role and roles are given"},
		{"no roles", "roles: []", "roles: want one role, or deployer and another one"},
		{"two others", "roles: [inspector, operator]", "roles: want one role, or deployer and another one"},
		{"deployer twice", "roles: [deployer, deployer], namespaces: [a]", "roles: want one role, or deployer and another one"},
		{"three", "roles: [deployer, inspector, consumer], namespaces: [a]", "roles: want one role, or deployer and another one"},
		{"nodes that deploy", "roles: [consumer, deployer], systemNodes: true, namespaces: [a]", "with systemNodes it is consumer"},
	} {
		matcher := "uid: 7, "
		if strings.Contains(tc.entry, "systemNodes") {
			matcher = ""
		}
		if r, err := parseRules("a", []byte("clients:\n- {"+matcher+tc.entry+"}\n")); err == nil || !strings.Contains(err.Error(), "a:2: clients[0]: ") ||
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, %v; want %q", tc.name, r, err, tc.want)
		}
	}
}

// TestWhoMayWrite: root and the daemon's own user may write everything, unless an entry matches them. Else only deployers may
// write, by what their entry says: no other role implies that, and it implies no other one.
func TestWhoMayWrite(t *testing.T) {
	ca := certtest.NewCA(t, "clients")
	files := newTLSFiles(t, ca, `clients:
- {uid: 1, role: inspector}
- {uid: 2, role: consumer}
- {uid: 3, role: operator}
- {uid: 4, role: deployer, namespaces: [shop]}
- {uid: 5, role: deployer, namespaces: ["*"], podSecurity: restricted, maxPods: 3, maxBytes: 64Ki}
- {uid: 6, roles: [deployer, inspector], namespaces: [shop], podSecurity: privileged}
- {uid: 7, roles: [operator, deployer], namespaces: [a, b]}
- {commonName: ci, role: deployer, namespaces: [shop]}
`)
	cfg := files.config()
	cfg.AllowUIDs = []uint32{8}
	a := open(t, cfg, &strings.Builder{})
	defaults := func(namespaces ...string) *Writes {
		return &Writes{Namespaces: namespaces, PodSecurity: Baseline, MaxPods: 20, MaxBytes: 1 << 20}
	}
	privileged := defaults("shop")
	privileged.PodSecurity = Privileged
	for _, tc := range []struct {
		name string
		info *AuthInfo
		role Role
		want *Writes
	}{
		{"root", uid(a, 0), Operator, &Writes{Everything: true, PodSecurity: Privileged}},
		{"an inspector", uid(a, 1), Inspector, nil},
		{"a consumer", uid(a, 2), Consumer, nil},
		{"an operator", uid(a, 3), Operator, nil},
		{"a deployer", uid(a, 4), Deployer, defaults("shop")},
		{"a deployer of all namespaces", uid(a, 5), Deployer, &Writes{PodSecurity: Restricted, MaxPods: 3, MaxBytes: 64 << 10}},
		{"a deployer that inspects", uid(a, 6), Inspector, privileged},
		{"a deployer that operates", uid(a, 7), Operator, defaults("a", "b")},
		{"--allow-uid", uid(a, 8), Consumer, nil},
		{"a stranger", uid(a, 9), None, nil},
		{"a certificate", client(t, a, ca, certtest.Request{CommonName: "ci"}), Deployer, defaults("shop")},
		{"another certificate", client(t, a, ca, certtest.Request{CommonName: "cd"}), None, nil},
	} {
		got := tc.info.Caller()
		if diff := cmp.Diff(tc.want, got.Writes); got.Role != tc.role || diff != "" {
			t.Errorf("%s has the role %v; want %v; writes (-want +got):\n%s", tc.name, got.Role, tc.role, diff)
		}
		if got.OwnOnly() != (tc.role == Deployer) || got.OwnOnly() != cmp.Equal(got.Sources, []string{"applied"}) {
			t.Errorf("%s sees its own pods only: %v, of the sources %q", tc.name, got.OwnOnly(), got.Sources)
		}
	}
	demoted := open(t, Config{File: writeRules(t, "clients:\n- {uid: 0, role: operator}\n")}, &strings.Builder{})
	if c := uid(demoted, 0).Caller(); c.Writes != nil {
		t.Errorf("root with an entry may write %+v; want nothing, as the entry says", c.Writes)
	}
}

func writeRules(t *testing.T, text string) string {
	t.Helper()
	path := t.TempDir() + "/access"
	certtest.WriteFile(t, path, []byte(text))
	return path
}

// TestPermit: a caller with the minimum role is refused what Permit refuses it.
func TestPermit(t *testing.T) {
	cfg := Config{
		File: writeRules(t, "clients:\n- {uid: 1, role: operator}\n- {uid: 2, role: deployer, namespaces: [a]}\n"), MinimumRole: func(string) Role { return Deployer },
		Permit: func(method string, c Caller) error {
			if method == "/write" && c.Writes == nil {
				return errors.New("it may not write")
			}
			return nil
		},
	}
	a := open(t, cfg, &strings.Builder{})
	for _, tc := range []struct {
		uid    uint32
		method string
		want   codes.Code
	}{{0, "/write", codes.OK}, {1, "/write", codes.PermissionDenied}, {1, "/read", codes.OK}, {2, "/write", codes.OK}, {3, "/read", codes.PermissionDenied}} {
		if _, err := authorize(a, uid(a, tc.uid), tc.method); status.Code(err) != tc.want {
			t.Errorf("uid %d, %s: %v; want %v", tc.uid, tc.method, err, tc.want)
		}
	}
}

// TestRecheckWrites: a connection is closed when what its caller may write changes.
func TestRecheckWrites(t *testing.T) {
	path := writeRules(t, "clients:\n- {uid: 1, role: deployer, namespaces: [a]}\n")
	a := open(t, Config{File: path}, &strings.Builder{})
	i := uid(a, 1)
	for _, tc := range []struct{ entry, want string }{
		{"{uid: 1, role: deployer, namespaces: [a], podSecurity: baseline}", ""},
		{"{uid: 1, role: deployer, namespaces: [b]}", `to deployer of nodes [] and sources ["applied"] that may write baseline pods to the namespaces ["b"]`},
		{"{uid: 1, role: deployer, namespaces: [a], maxPods: 1}", "its role or scope has changed"},
		{"{uid: 1, role: inspector}", "to inspector"},
	} {
		certtest.WriteFile(t, path, []byte("clients:\n- "+tc.entry+"\n"))
		a.Reload()
		a.Reload()
		if err := a.Recheck(i); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("after the change to %s: %v; want %q", tc.entry, err, tc.want)
		}
	}
}

// TestExample: the example of an access file is valid, and means what its comments say.
func TestExample(t *testing.T) {
	a := open(t, Config{File: "../../deploy/access.yaml"}, &strings.Builder{})
	c := uid(a, 1001).Caller()
	if c.Role != Inspector || c.Writes == nil || !c.Writes.HasNamespace("dev") || c.Writes.HasNamespace("shop") || c.Writes.PodSecurity != Baseline {
		t.Errorf("the developer is %s", c.describe())
	}
}
