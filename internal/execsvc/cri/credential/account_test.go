package credential

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
)

// accounts are the service accounts of the namespace default; tokens are "token of NAME UID for AUDIENCE to POD 1", numbered
// by generation.
type accounts struct {
	uids        map[string]types.UID
	annotations map[string]string
	generation  int
	err         error
}

func (a *accounts) Account(_ context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	if a.err != nil || a.uids[name] == "" {
		return nil, errors.Join(a.err, errors.New("no account "+name))
	}
	return &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: a.uids[name], Annotations: a.annotations}}, nil
}

func (a *accounts) Token(_ context.Context, pod *v1.Pod, account *v1.ServiceAccount, audience string) (string, error) {
	if a.err != nil {
		return "", a.err
	}
	return fmt.Sprintf("token-of-%s-%s-for-%s-to-%s-%d", account.Name, account.UID, audience, pod.UID, a.generation), nil
}

// accountPod returns a pod of a source with a service account.
func accountPod(source, uid, name string) *v1.Pod {
	p := pod()
	p.UID, p.Annotations["kubernetes.io/config.source"], p.Spec.ServiceAccountName = types.UID(uid), source, name
	return p
}

// withTokens returns a configuration of a plugin p that receives tokens.
func withTokens(attributes string) string {
	return providers("p") + "  tokenAttributes: {serviceAccountTokenAudience: registry, " + attributes + "}\n"
}

// echo answers with the token and the annotations as the user.
const echo = `token=$(echo "$request" | sed -n 's/.*"serviceAccountToken":"\([^"]*\)".*/\1/p')
notes=$(echo "$request" | sed -n 's/.*"serviceAccountAnnotations":{\([^}]*\)}.*/\1/p' | tr -d '"')
echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry","auth":{"*.io":{"username":"'"$token $notes"'","password":"secret"}}}'
`

func newTokenKeyring(t *testing.T, attributes, body string, a Accounts, log *strings.Builder) (k *Keyring, dir string, clock *testingclock.FakeClock) {
	t.Helper()
	dir, clock = t.TempDir(), testingclock.NewFakeClock(time.Unix(1_000_000, 0))
	script(t, dir, "p", body)
	config := write(t, filepath.Join(dir, "config.yaml"), withTokens(attributes), 0o600)
	k, err := New(Config{PluginConfig: config, PluginDir: dir, Accounts: a, Clock: clock, Logger: textLogger(log)})
	if err != nil {
		t.Fatal(err)
	}
	return k, dir, clock
}

// TestTokens: which pods a plugin runs for, what it receives, and whose credentials its answer is.
func TestTokens(t *testing.T) {
	a := &accounts{uids: map[string]types.UID{"sa": "s1"}, annotations: map[string]string{"example.io/role": "reader", "example.io/more": "x", "other": "y"}}
	for _, tc := range []struct {
		name, attributes string
		pod              *v1.Pod
		want             string
		account          *imageaccess.Account
	}{
		{"a pod with an account", "cacheType: Token, requireServiceAccount: true", accountPod("api", "1", "sa"), "token-of-sa-s1-for-registry-to-1-0 ",
			&imageaccess.Account{UID: "s1", Namespace: "default", Name: "sa"}},
		{"annotations", "cacheType: Token, requireServiceAccount: true, requiredServiceAccountAnnotationKeys: [example.io/role], " +
			"optionalServiceAccountAnnotationKeys: [example.io/more, example.io/none]", accountPod("api", "1", "sa"),
			"token-of-sa-s1-for-registry-to-1-0 example.io/more:x,example.io/role:reader", &imageaccess.Account{UID: "s1", Namespace: "default", Name: "sa"}},
		{"a required annotation is missing", "cacheType: Token, requireServiceAccount: true, requiredServiceAccountAnnotationKeys: [example.io/none]",
			accountPod("api", "1", "sa"), "none", nil},
		{"no account, and one is required", "cacheType: Token, requireServiceAccount: true", accountPod("api", "1", ""), "none", nil},
		{"no account, and none is required", "cacheType: Token, requireServiceAccount: false", accountPod("api", "1", ""), " ", nil},
		{"a manifest can't name an account", "cacheType: Token, requireServiceAccount: true", accountPod("file", "1", "sa"), "none", nil},
		{"a manifest's pod, and none is required", "cacheType: Token, requireServiceAccount: false", accountPod("file", "1", "sa"), " ", nil},
		{"no such account", "cacheType: Token, requireServiceAccount: false", accountPod("api", "1", "gone"), "none", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log strings.Builder
			k, _, _ := newTokenKeyring(t, tc.attributes, echo, a, &log)
			got, account := "none", (*imageaccess.Account)(nil)
			for _, login := range k.Lookup(t.Context(), tc.pod, "quay.io/app") {
				got, account = login.Username, login.Account
			}
			if got != tc.want || !cmp.Equal(account, tc.account) {
				t.Errorf("%q of %+v; want %q of %+v", got, account, tc.want, tc.account)
			}
			if strings.Contains(log.String(), "token-of") {
				t.Errorf("the log has a token:\n%s", &log)
			}
			if wrong := strings.Contains(log.String(), "failed to get service account"); wrong != (tc.name == "no such account") {
				t.Errorf("the log has\n%s", &log)
			}
		})
	}
}

// TestTokenCache: an answer is for one service account, or for one token; never for another account.
func TestTokenCache(t *testing.T) {
	for _, tc := range []struct {
		cacheType string
		// runs are after: two lookups of one pod, another pod of the account, another account, an account of the same
		// name, and other annotations.
		runs [5]int
	}{{"ServiceAccount", [5]int{1, 1, 2, 3, 4}}, {"Token", [5]int{1, 2, 3, 4, 5}}} {
		t.Run(tc.cacheType, func(t *testing.T) {
			var log strings.Builder
			a := &accounts{uids: map[string]types.UID{"sa": "s1", "other": "s2"}, annotations: map[string]string{"example.io/role": "r"}}
			k, dir, _ := newTokenKeyring(t, "requireServiceAccount: true, requiredServiceAccountAnnotationKeys: [example.io/role], cacheType: "+tc.cacheType, echo, a, &log)
			var got [5]int
			look := func(i int, p *v1.Pod, name string) {
				t.Helper()
				logins := k.Lookup(t.Context(), p, "quay.io/app")
				if len(logins) != 1 || logins[0].Account == nil || logins[0].Account.Name != name || !strings.HasPrefix(logins[0].Username, "token-of-"+name+"-") {
					t.Errorf("pod %s of %s: %+v\n%s", p.UID, name, logins, &log)
				}
				got[i] = runs(t, dir, "p")
			}
			look(0, accountPod("api", "1", "sa"), "sa")
			look(0, accountPod("api", "1", "sa"), "sa")
			look(1, accountPod("api", "2", "sa"), "sa")
			look(2, accountPod("api", "3", "other"), "other")
			a.uids["sa"] = "s3"
			look(3, accountPod("api", "1", "sa"), "sa")
			a.annotations = map[string]string{"example.io/role": "r2"}
			look(4, accountPod("api", "1", "sa"), "sa")
			if got != tc.runs {
				t.Errorf("runs %v; want %v", got, tc.runs)
			}
		})
	}
}

// TestEchoedToken: a plugin may return the token as the password only if its answers are for one token.
func TestEchoedToken(t *testing.T) {
	body := strings.Replace(echo, `"password":"secret"`, `"password":"'"$token"'"`, 1)
	for cacheType, want := range map[string]int{"Token": 1, "ServiceAccount": 0} {
		var log strings.Builder
		a := &accounts{uids: map[string]types.UID{"sa": "s1"}}
		k, _, _ := newTokenKeyring(t, "requireServiceAccount: true, cacheType: "+cacheType, body, a, &log)
		if got := k.Lookup(t.Context(), accountPod("api", "1", "sa"), "quay.io/app"); len(got) != want {
			t.Errorf("%s: %d logins", cacheType, len(got))
		}
		if refused := strings.Contains(log.String(), "returned the service account token as the password"); refused != (want == 0) || strings.Contains(log.String(), "token-of") {
			t.Errorf("%s: the log has\n%s", cacheType, &log)
		}
	}
}

// TestAnswersAreBounded: pods with ever other accounts don't fill the memory.
func TestAnswersAreBounded(t *testing.T) {
	p := &plugin{answers: map[cacheKey]answer{}, calls: map[string]*call{}, clock: testingclock.NewFakePassiveClock(time.Now()), keep: time.Hour, metrics: newMetrics(nil)}
	p.run = answerGlobal
	for i := range 3 * maxAnswers {
		if _, err := p.loginsOf(t.Context(), identity{scope: fmt.Sprint(i)}, "quay.io/app"); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.answers) > maxAnswers || len(p.calls) > 0 {
		t.Errorf("%d answers and %d calls are kept", len(p.answers), len(p.calls))
	}
}

// TestStandalone: without an API server, a plugin that requires a service account runs for no pod.
func TestStandalone(t *testing.T) {
	var log strings.Builder
	k, dir, _ := newTokenKeyring(t, "cacheType: Token, requireServiceAccount: true", echo, nil, &log)
	if got := k.Lookup(t.Context(), accountPod("api", "1", "sa"), "quay.io/app"); len(got) != 0 || runs(t, dir, "p") != 0 {
		t.Errorf("%d logins, %d runs", len(got), runs(t, dir, "p"))
	}
	if !strings.Contains(log.String(), errStandalone.Error()) {
		t.Errorf("the log has\n%s", &log)
	}
}

// TestAwayAccounts: while the API server is away, credentials that are cached for an account are used.
func TestAwayAccounts(t *testing.T) {
	var log strings.Builder
	a := &away{accounts: accounts{uids: map[string]types.UID{"sa": "s1"}}}
	k, _, clock := newTokenKeyring(t, "cacheType: ServiceAccount, requireServiceAccount: true", echo, a, &log)
	for _, step := range []struct {
		away bool
		want int
	}{{false, 1}, {true, 1}, {true, 0}} {
		a.away = step.away
		if step.want == 0 {
			clock.Step(time.Hour)
		}
		if got := k.Lookup(t.Context(), accountPod("api", "1", "sa"), "quay.io/app"); len(got) != step.want {
			t.Errorf("%+v: %d logins\n%s", step, len(got), &log)
		}
	}
}

// away are accounts whose tokens can't be had for a time.
type away struct {
	accounts
	away bool
}

func (a *away) Token(ctx context.Context, pod *v1.Pod, account *v1.ServiceAccount, audience string) (string, error) {
	if a.away {
		return "", errors.New("connection refused")
	}
	return a.accounts.Token(ctx, pod, account, audience)
}

// TestTokenAttributes: each mistake that the kubelet finds in tokenAttributes is an error.
func TestTokenAttributes(t *testing.T) {
	const good = "serviceAccountTokenAudience: a, cacheType: Token, requireServiceAccount: true"
	for _, tc := range []struct{ attributes, version, want string }{
		{good, "v1", ""},
		{"cacheType: Token, requireServiceAccount: true", "v1", "serviceAccountTokenAudience is required"},
		{"serviceAccountTokenAudience: a, cacheType: Token", "v1", "requireServiceAccount is required"},
		{"serviceAccountTokenAudience: a, requireServiceAccount: true", "v1", `cacheType "" must be ServiceAccount or Token`},
		{"serviceAccountTokenAudience: a, cacheType: Pod, requireServiceAccount: true", "v1", `cacheType "Pod"`},
		{good, "v1beta1", "only plugins of credentialprovider.kubelet.k8s.io/v1 receive tokens"},
		{"serviceAccountTokenAudience: a, cacheType: Token, requireServiceAccount: false, requiredServiceAccountAnnotationKeys: [a]", "v1", "requireServiceAccount must be true"},
		{good + ", requiredServiceAccountAnnotationKeys: ['a b']", "v1", `the annotation key "a b"`},
		{good + ", optionalServiceAccountAnnotationKeys: [a, a]", "v1", "is there twice"},
		{good + ", requiredServiceAccountAnnotationKeys: [a], optionalServiceAccountAnnotationKeys: [a]", "v1", "is there twice"},
	} {
		text := strings.Replace(providers("p"), "credentialprovider.kubelet.k8s.io/v1", "credentialprovider.kubelet.k8s.io/"+tc.version, 1) +
			"  tokenAttributes: {" + tc.attributes + "}\n"
		path := write(t, filepath.Join(t.TempDir(), "config.yaml"), text, 0o600)
		_, err := New(Config{PluginConfig: path})
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v; want %q", tc.attributes, err, tc.want)
		}
		const gate = "KubeletServiceAccountTokenForCredentialProviders"
		if _, err := New(Config{PluginConfig: path, NoTokens: true}); err == nil || !strings.Contains(err.Error(), gate) {
			t.Errorf("%s: without tokens the error is %v; want one with %s", tc.attributes, err, gate)
		}
	}
}
