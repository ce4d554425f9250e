package image_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// accounts are the service accounts of an API server: their UIDs by NAMESPACE/NAME.
type accounts map[string]types.UID

func (a accounts) Account(_ context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	uid := a[namespace+"/"+name]
	if uid == "" {
		return nil, errors.New("not found")
	}
	return &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid}}, nil
}

func (a accounts) Token(_ context.Context, pod *v1.Pod, account *v1.ServiceAccount, _ string) (string, error) {
	return "token-of-" + account.Namespace + "-" + string(pod.UID), nil
}

// provider is a plugin that gives credentials for tokens of the namespace a, and counts its runs.
const provider = `#!/bin/sh
echo run >>"$0.runs"
read -r request
auth='{}'
case "$request" in
*token-of-a-*) auth='{"registry.example":{"username":"alice","password":"sesame"}}' ;;
esac
echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image","cacheDuration":"0s","auth":'"$auth"'}'
`

const providerConfig = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: provider
  matchImages: [registry.example]
  defaultCacheDuration: 0s
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  tokenAttributes: {serviceAccountTokenAudience: registry, cacheType: ServiceAccount, requireServiceAccount: true}
`

// TestServiceAccounts: an image that was pulled with credentials for a service account is for pods of that account only.
// The provider is asked each time; meanwhile nothing waits but the pod.
func TestServiceAccounts(t *testing.T) {
	w := newWorld(t)
	writeFile(t, w.dir+"/provider", provider)
	writeFile(t, w.dir+"/providers.yaml", providerConfig)
	known := accounts{"a/builder": "sa-1", "a/other": "sa-2", "b/builder": "sa-3"}
	w.plugins, w.accounts = w.dir+"/providers.yaml", known
	w.restart()
	of := func(namespace, name string, policy v1.PullPolicy) *v1.Pod {
		p := pod(namespace, policy, app)
		p.Spec.ServiceAccountName = name
		return p
	}
	w.wantRuns("the account", of("a", "builder", ifNotPresent))
	w.wantPulls("it", 1)
	for _, when := range []string{"before a restart", "after a restart"} {
		w.wantRuns(when+": the account again", of("a", "builder", ifNotPresent))
		w.wantRuns(when+": with the policy Never", of("a", "builder", v1.PullNever))
		w.wantPulls(when, 0)
		w.wantRefused(when+": another namespace's account of that name", of("b", "builder", ifNotPresent))
		w.wantRefused(when+": no account", pod("a", ifNotPresent, app))
		w.wantRefused(when+": from a manifest", of("file a", "builder", ifNotPresent))
		if got := w.starts(of("b", "builder", v1.PullNever)); !strings.HasPrefix(got, "ErrImageNeverPull") {
			t.Errorf("%s: Never: %s", when, got)
		}
		w.wantPulls(when+": refused", 3)
		w.restart()
	}
	w.wantRuns("another account of the namespace, which has to pull", of("a", "other", ifNotPresent))
	w.wantPulls("it", 1)
	w.wantRuns("another account, again", of("a", "other", ifNotPresent))
	w.wantPulls("it", 0)
	known["a/builder"] = "sa-4"
	w.wantRuns("an account made again, which has to pull", of("a", "builder", ifNotPresent))
	w.wantPulls("it", 1)
	delete(known, "a/other")
	w.wantRefused("an account that is gone", of("a", "other", ifNotPresent))
}

// TestVerifying: while the provider is asked, the pod shows it; a removed pod's provider isn't waited for.
func TestVerifying(t *testing.T) {
	w := newWorld(t)
	writeFile(t, w.dir+"/provider", provider)
	writeFile(t, w.dir+"/providers.yaml", providerConfig)
	w.plugins, w.accounts = w.dir+"/providers.yaml", accounts{"a/builder": "sa-1"}
	w.restart()
	first := pod("a", ifNotPresent, app)
	first.Spec.ServiceAccountName = "builder"
	w.wantRuns("the account", first)
	writeFile(t, w.dir+"/provider", "#!/bin/sh\nsleep 1000\n")
	p := pod("a", ifNotPresent, app)
	p.Spec.ServiceAccountName = "builder"
	for range 2 {
		_, wait, err := w.puller.Ensure(t.Context(), p, &p.Spec.Containers[0], nil)
		if wait == nil || !wait.Pulling || wait.Reason != "ContainerCreating" || !strings.HasPrefix(wait.Message, `verifying the credentials for image "`+app+`" since `) || err != nil {
			t.Fatalf("%+v, %v", wait, err)
		}
	}
	w.wantRuns("a loaded image of another pod", pod("b", ifNotPresent, "loaded:1"))
	w.puller.Drop(p.UID)
	w.puller.Close()
}
