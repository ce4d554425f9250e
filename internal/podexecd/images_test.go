package podexecd

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/objects"
)

// accountServer is an API server with the service account ns/builder. It issues a token for a request that is bound to
// the pod web, for the audience registry and for this account's UID.
type accountServer struct {
	mu       sync.Mutex
	requests []string
	away     bool
}

func (s *accountServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	if s.away {
		http.Error(w, "away", http.StatusServiceUnavailable)
		return
	}
	var answer any
	switch r.Method + " " + r.URL.Path {
	case "GET /api/v1/namespaces/ns/serviceaccounts/builder":
		answer = &v1.ServiceAccount{
			TypeMeta:   metav1.TypeMeta{Kind: "ServiceAccount", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "builder", UID: "sa-1", Annotations: map[string]string{"example.io/role": "reader"}},
		}
	case "POST /api/v1/namespaces/ns/serviceaccounts/builder/token":
		var request authenticationv1.TokenRequest
		body, _ := io.ReadAll(r.Body)
		if json.Unmarshal(body, &request) != nil || request.UID != "sa-1" || fmt.Sprint(request.Spec.Audiences) != "[registry]" ||
			request.Spec.BoundObjectRef == nil || request.Spec.BoundObjectRef.UID != "pod-1" {
			http.Error(w, "conflict", http.StatusConflict)
			return
		}
		request.Status = authenticationv1.TokenRequestStatus{Token: "issued"}
		answer = &request
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// TestProviderTokens: a credential provider of podexecd's configuration receives a token of the pod's service account
// from the API server, and the account's annotations.
func TestProviderTokens(t *testing.T) {
	s := &accountServer{}
	server := httptest.NewServer(s)
	defer server.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // One is a program.
			t.Fatal(err)
		}
		return path
	}
	write("provider", `#!/bin/sh
read -r request
case "$request" in
*'"image":"registry.example/app","serviceAccountToken":"issued","serviceAccountAnnotations":{"example.io/role":"reader"}'*)
	echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image","cacheDuration":"1h",
"auth":{"registry.example":{"username":"me","password":"secret"}}}' ;;
*) echo "$request" | sed 's/issued/TOKEN/' >&2; exit 1 ;;
esac
`)
	config := write("providers.yaml", `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: provider
  matchImages: [registry.example]
  defaultCacheDuration: 1h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  tokenAttributes:
    serviceAccountTokenAudience: registry
    cacheType: ServiceAccount
    requireServiceAccount: true
    requiredServiceAccountAnnotationKeys: [example.io/role]
`)
	kubeconfig := write("kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, server.URL))
	opts, err := parse([]string{
		"--root-dir", dir, "--kubeconfig", kubeconfig, "--hostname-override", "n1", "--kube-api-content-type", "application/json",
		"--image-credential-provider-config", config, "--image-credential-provider-bin-dir", dir,
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	n, err := newNode(opts, nil, prometheus.NewRegistry(), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	n.objects = objects.New(objects.Config{})
	if err := n.openImages(); err != nil {
		t.Fatal(err)
	}
	pod := func(name string, source string) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "pod-1", Annotations: map[string]string{"kubernetes.io/config.source": source}},
			Spec:       v1.PodSpec{ServiceAccountName: name},
		}
	}
	for _, c := range []struct {
		what, account, source string
		away                  bool
		logins                int
	}{
		{"a pod of the account", "builder", "api", false, 1},
		{"a pod of another account", "other", "api", false, 0},
		{"a pod from a manifest", "builder", "file", false, 0},
		{"a pod of the account, without an API server", "builder", "api", true, 1},
	} {
		s.mu.Lock()
		s.away = c.away
		s.mu.Unlock()
		got := n.keyring.Lookup(t.Context(), pod(c.account, c.source), "registry.example/app")
		if len(got) != c.logins || len(got) == 1 && (got[0].Username != "me" || got[0].Account == nil || got[0].Account.UID != "sa-1") {
			t.Errorf("%s: %+v\n%s", c.what, got, &log)
		}
	}
	if strings.Contains(log.String(), "issued") || strings.Contains(log.String(), "secret") {
		t.Errorf("the log has a secret:\n%s", &log)
	}
	if got := strings.Count(strings.Join(s.requests, "\n"), "POST"); got != 1 {
		t.Errorf("%d token requests:\n%s", got, strings.Join(s.requests, "\n"))
	}
}
