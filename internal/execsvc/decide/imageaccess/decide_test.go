package imageaccess

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podstream/podstream/internal/imagepolicy"
)

const repository = "registry.example/team/app"

// secret returns a pull secret, "UID NAMESPACE/NAME HASH".
func secret(text string) Secret {
	var s Secret
	if n, _ := fmt.Sscanf(text, "%s %s %s %s", &s.UID, &s.Namespace, &s.Name, &s.CredentialHash); n < 3 {
		panic(text)
	}
	return s
}

func account(name string) Account { return Account{UID: "uid-" + name, Namespace: "a", Name: name} }

// record returns a record with these credentials for the repository.
func record(c kubeletconfigv1beta1.ImagePullCredentials) *Record {
	return &Record{ImageRef: "sha256:1", CredentialMapping: map[string]kubeletconfigv1beta1.ImagePullCredentials{repository: c}}
}

func secrets(texts ...string) kubeletconfigv1beta1.ImagePullCredentials {
	var c kubeletconfigv1beta1.ImagePullCredentials
	for _, text := range texts {
		c.KubernetesSecrets = append(c.KubernetesSecrets, secret(text))
	}
	return c
}

func many(n int) kubeletconfigv1beta1.ImagePullCredentials {
	c := secrets("u1 a pull H1")
	for i := 1; i < n; i++ {
		c.KubernetesSecrets = append(c.KubernetesSecrets, secret(fmt.Sprintf("x%d x x%d X%d", i, i, i)))
	}
	return c
}

// TestDecide: the decisions of the kubelet's pull manager (pkg/kubelet/images/pullmanager), and where coordinates
// without an API server's UID prove nothing.
func TestDecide(t *testing.T) {
	accounts := kubeletconfigv1beta1.ImagePullCredentials{KubernetesServiceAccounts: []Account{account("sa"), account("other")}}
	mixed := secrets("u1 a pull H1")
	mixed.KubernetesServiceAccounts = accounts.KubernetesServiceAccounts
	allowed, denied, unknown := Decision{Access: Allowed, Result: RecordFound}, Decision{Result: MustAuthenticate}, Decision{}
	unknown.Access = Unknown
	learned := func(text string) Decision {
		s := secret(text)
		return Decision{Access: Allowed, Result: RecordFound, Learned: &s}
	}
	sa := account("sa")
	recreated := account("sa")
	recreated.UID = "uid-2"
	for _, tc := range []struct {
		name   string
		policy kubeletconfigv1beta1.ImagePullCredentialsVerificationPolicy
		known  Known
		// of are the pull secrets of the pod, and acc its service account; askAccount: it isn't known.
		of         []string
		acc        *Account
		askAccount bool
		want       Decision
	}{
		{name: "preloaded", want: Decision{Access: Allowed, Result: PolicyAllowed}},
		{name: "preloaded, always verified", policy: imagepolicy.AlwaysVerify, want: denied},
		{name: "pulled, never verified", policy: imagepolicy.NeverVerify, known: Known{Pulled: true, Record: record(secrets("u1 a pull H1"))},
			want: Decision{Access: Allowed, Result: PolicyAllowed}},
		{name: "being pulled", known: Known{Pulled: true}, of: []string{"u1 a pull H1"}, want: denied},
		{name: "a damaged record", known: Known{Pulled: true, Damaged: true}, want: Decision{Result: CheckError}},
		{name: "a damaged record, never verified", policy: imagepolicy.NeverVerify, known: Known{Damaged: true}, want: Decision{Result: CheckError}},
		{name: "for all pods", known: Known{Pulled: true, Record: record(kubeletconfigv1beta1.ImagePullCredentials{NodePodsAccessible: true})}, want: allowed},
		{name: "pulled by another name", known: Known{Pulled: true, Record: &Record{CredentialMapping: map[string]kubeletconfigv1beta1.ImagePullCredentials{
			"registry.example/team/other": {NodePodsAccessible: true}}}}, want: denied},
		{name: "pulled, with credentials that aren't known", known: Known{Pulled: true, Record: &Record{}}, of: []string{"u1 a pull H1"}, want: denied},
		{name: "an empty entry", known: Known{Pulled: true, Record: record(kubeletconfigv1beta1.ImagePullCredentials{})}, of: []string{"u1 a pull H1"}, want: denied},
		{name: "the same secret", known: Known{Pulled: true, Record: record(secrets("u1 a pull H1"))}, of: []string{"u1 a pull H1"}, want: allowed},
		{name: "no secret", known: Known{Pulled: true, Record: record(secrets("u1 a pull H1"))}, want: denied},
		{name: "another secret", known: Known{Pulled: true, Record: record(secrets("u1 a pull H1"))}, of: []string{"u2 b pull H2"}, want: denied},
		{name: "the same login in another namespace", known: Known{Pulled: true, Record: record(secrets("u1 a pull H1"))}, of: []string{"u2 b pull H1"},
			want: learned("u2 b pull H1")},
		{name: "a rotated secret", known: Known{Pulled: true, Record: record(secrets("u1 a pull H1"))}, of: []string{"u1 a pull H2"},
			want: learned("u1 a pull H2")},
		{name: "a secret made again, with another login", known: Known{Pulled: true, Record: record(secrets("u1 a pull H1"))}, of: []string{"u2 a pull H2"}, want: denied},
		{name: "a secret made again, with the same login", known: Known{Pulled: true, Record: record(secrets("u1 a pull H1"))}, of: []string{"u2 a pull H1"},
			want: learned("u2 a pull H1")},
		{name: "the same name in another namespace", known: Known{Pulled: true, Record: record(secrets("u1 a pull H1"))}, of: []string{"u1 b pull H2"}, want: denied},
		{name: "the second of the pod's secrets", known: Known{Pulled: true, Record: record(secrets("u0 a o H0", "u1 a pull H1"))},
			of: []string{"u5 a five H5", "u1 a pull H1"}, want: allowed},
		{name: "no hash matches no hash", known: Known{Pulled: true, Record: record(secrets("u1 a pull"))}, of: []string{"u2 a pull"}, want: denied},
		{name: "without a UID: the same login", known: Known{Pulled: true, Record: record(secrets("source:1 a pull H1"))}, of: []string{"source:1 a pull H1"}, want: allowed},
		{name: "without a UID: the same name, and another login", known: Known{Pulled: true, Record: record(secrets("source:1 a pull H1"))},
			of: []string{"source:1 a pull H2"}, want: denied},
		{name: "without a UID: another source", known: Known{Pulled: true, Record: record(secrets("source:1 a pull H1"))}, of: []string{"source:2 a pull H2"}, want: denied},
		{name: "99 secrets: a rotated one", known: Known{Pulled: true, Record: record(many(99))}, of: []string{"u1 a pull H2"}, want: learned("u1 a pull H2")},
		{name: "100 secrets: a rotated one", known: Known{Pulled: true, Record: record(many(100))}, of: []string{"u1 a pull H2"}, want: denied},
		{name: "100 secrets: the same login", known: Known{Pulled: true, Record: record(many(100))}, of: []string{"u2 b pull H1"}, want: allowed},
		{name: "a service account", known: Known{Pulled: true, Record: record(accounts)}, acc: &sa, want: allowed},
		{name: "another service account", known: Known{Pulled: true, Record: record(accounts)}, acc: &Account{UID: "uid-b", Namespace: "b", Name: "sa"}, want: denied},
		{name: "a service account made again", known: Known{Pulled: true, Record: record(accounts)}, acc: &recreated, want: denied},
		{name: "no service account", known: Known{Pulled: true, Record: record(accounts)}, want: denied},
		{name: "a service account that isn't known", known: Known{Pulled: true, Record: record(accounts)}, askAccount: true, want: unknown},
		{name: "a secret, whatever the service account", known: Known{Pulled: true, Record: record(mixed)}, of: []string{"u1 a pull H1"}, askAccount: true, want: allowed},
		{name: "no secret: the service account", known: Known{Pulled: true, Record: record(mixed)}, of: []string{"u2 a pull H2"}, askAccount: true, want: unknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			policy, err := imagepolicy.New(tc.policy, nil)
			if err != nil {
				t.Fatal(err)
			}
			use := Use{ID: "sha256:1", Repository: repository, Account: tc.acc, AccountKnown: !tc.askAccount, Secrets: func() []Login {
				logins := []Login{{Username: "the node's"}}
				for _, text := range tc.of {
					s := secret(text)
					logins = append(logins, Login{Secret: &s})
				}
				return logins
			}}
			if diff := cmp.Diff(tc.want, Decide(policy, use, tc.known)); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}
