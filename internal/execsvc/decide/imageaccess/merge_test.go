package imageaccess

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podstream/podstream/internal/imagepolicy"
)

// from returns a login from a pull secret.
func from(text string) Login {
	s := secret(text)
	return Login{Secret: &s}
}

// TestMerge: what a record has after a pull, as with the kubelet's pull manager.
func TestMerge(t *testing.T) {
	sa := account("sa")
	with := func(c kubeletconfigv1beta1.ImagePullCredentials, a ...Account) kubeletconfigv1beta1.ImagePullCredentials {
		c.KubernetesServiceAccounts = a
		return c
	}
	all := kubeletconfigv1beta1.ImagePullCredentials{NodePodsAccessible: true}
	for _, tc := range []struct {
		name      string
		has       kubeletconfigv1beta1.ImagePullCredentials
		logins    []Login
		want      kubeletconfigv1beta1.ImagePullCredentials
		unchanged bool
	}{
		{"nothing is known", secrets("u1 a pull H1"), nil, secrets("u1 a pull H1"), true},
		{"a secret", secrets(), []Login{from("u1 a pull H1")}, secrets("u1 a pull H1"), false},
		{"the same secret", secrets("u1 a pull H1"), []Login{from("u1 a pull H1")}, secrets("u1 a pull H1"), true},
		{"a rotated secret", secrets("u1 a pull H1"), []Login{from("u1 a pull H2")}, secrets("u1 a pull H2"), false},
		{"a secret made again", secrets("u1 a pull H1"), []Login{from("u0 a pull H1")}, secrets("u0 a pull H1", "u1 a pull H1"), false},
		{"two pods' secrets, in order", secrets("u2 b b H2"), []Login{from("u3 c c H3"), from("u1 a z H1")}, secrets("u1 a z H1", "u2 b b H2", "u3 c c H3"), false},
		{"a service account", secrets("u1 a pull H1"), []Login{{Account: &sa}}, with(secrets("u1 a pull H1"), sa), false},
		{"the same service account", with(secrets(), sa), []Login{{Account: &sa}}, with(secrets(), sa), true},
		{"for all pods", with(secrets("u1 a pull H1"), sa), []Login{{}}, all, false},
		{"for all pods already", all, []Login{from("u1 a pull H1"), {}}, all, true},
		{"two pods, one with the node's credentials", secrets(), []Login{from("u1 a pull H1"), {}}, all, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := record(tc.has)
			r.CredentialMapping["registry.example/other"] = all
			before := r.DeepCopy()
			if changed := Merge(r, repository, tc.logins); changed == tc.unchanged {
				t.Errorf("changed: %t", changed)
			}
			if diff := cmp.Diff(tc.want, r.CredentialMapping[repository]); diff != "" {
				t.Errorf("credentials (-want +got):\n%s", diff)
			}
			if tc.unchanged && !cmp.Equal(before, r) {
				t.Errorf("it was changed:\n%s", cmp.Diff(before, r))
			}
			if !r.CredentialMapping["registry.example/other"].NodePodsAccessible {
				t.Error("another repository's credentials are gone")
			}
		})
	}
}

// TestLoaded: an image that was loaded is for all pods by its own name, also when a copy of it was pulled; by the name of
// the copy it isn't.
func TestLoaded(t *testing.T) {
	const copied, loaded = "registry.example/private/copy", repository
	names := []string{loaded + ":1", copied + ":1"}
	known := func(change func(k *Known)) Known {
		k := Known{Pulled: true, Record: NewRecord("sha256:1")}
		Merge(k.Record, copied, []Login{from("u1 a pull H1")})
		change(&k)
		return k
	}
	pushedOut := known(func(k *Known) { Merge(k.Record, loaded, nil) })
	for i := range 2 * maxRepositories {
		Merge(pushedOut.Record, fmt.Sprint("registry.example/private/copy", i), nil)
	}
	for _, tc := range []struct {
		name, use string
		names     []string
		policy    kubeletconfigv1beta1.ImagePullCredentialsVerificationPolicy
		known     Known
		want      Access
	}{
		{"by its own name", loaded, names, "", known(func(*Known) {}), Allowed},
		{"by the copy's name", copied, names, "", known(func(*Known) {}), Denied},
		{"by a name that the runtime doesn't have", "registry.example/else", names, "", known(func(*Known) {}), Denied},
		{"while the runtime lists no names", loaded, nil, "", known(func(*Known) {}), Denied},
		{"while its own name is pulled", loaded, names, "", known(func(k *Known) { k.IntendedBySameName = true }), Denied},
		{"while a copy is pulled", loaded, names, "", Known{Pulled: true}, Allowed},
		{"when its own name was pulled", loaded, names, "", known(func(k *Known) { Merge(k.Record, loaded, nil) }), Denied},
		{"when its own name was pushed out of the record", loaded, names, "", pushedOut, Denied},
		{"with a kubelet's record", loaded, names, "", known(func(k *Known) { delete(k.Record.CredentialMapping, complete) }), Denied},
		{"with a damaged record", loaded, names, "", known(func(k *Known) { k.Record, k.Damaged = nil, true }), Denied},
		{"with the policy AlwaysVerify", loaded, names, imagepolicy.AlwaysVerify, known(func(*Known) {}), Denied},
	} {
		policy, err := imagepolicy.New(tc.policy, nil)
		if err != nil {
			t.Fatal(err)
		}
		use := Use{ID: "sha256:1", Repository: tc.use, Name: tc.use + ":1", Names: tc.names, AccountKnown: true, Secrets: func() []Login { return nil }}
		if got := Decide(policy, use, tc.known).Access; got != tc.want {
			t.Errorf("%s: %v; want %v", tc.name, got, tc.want)
		}
	}
}

// TestBounds: whatever pods pull an image with, by whatever names, its record stays small, and has what was just added.
func TestBounds(t *testing.T) {
	long := strings.Repeat("n", 253)
	r := &Record{ImageRef: "sha256:" + strings.Repeat("1", 64)}
	for i := range 300 {
		for j := range 5 {
			name := fmt.Sprintf("registry.example/%s%d", long, i)
			login := Login{Secret: &Secret{UID: fmt.Sprintf("%036d", i*5+j), Namespace: long, Name: fmt.Sprintf("%s%d", long, j), CredentialHash: strings.Repeat("f", 64)}}
			if !Merge(r, name, []Login{login}) {
				t.Fatal("it wasn't changed")
			}
			if got := r.CredentialMapping[name].KubernetesSecrets; len(got) != j+1 {
				t.Fatalf("after adding secret %d there are %d", j, len(got))
			}
		}
	}
	for i := range 2000 {
		s := secret(fmt.Sprintf("u%d a n%d H%d", i, i, i))
		a := account(fmt.Sprint("sa", i))
		Merge(r, repository, []Login{{Secret: &s}, {Account: &a}})
		use := Use{Repository: repository, Secrets: func() []Login { return []Login{{Secret: &s}} }}
		if has := r.CredentialMapping[repository]; len(has.KubernetesSecrets) > maxOfKind || len(has.KubernetesServiceAccounts) > maxOfKind {
			t.Fatalf("%d secrets and %d accounts", len(has.KubernetesSecrets), len(has.KubernetesServiceAccounts))
		}
		if d := Decide(imagepolicy.Policy{}, use, Known{Pulled: true, Record: r}); d.Access != Allowed {
			t.Fatalf("the secret that was added last gives no access: %+v", d)
		}
	}
	text, err := json.Marshal(r)
	if err != nil || len(text) > 2<<20 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}
