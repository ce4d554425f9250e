package credential

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	pluginv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
)

// answerGlobal is a plugin's answer for all images.
func answerGlobal(context.Context, pluginv1.CredentialProviderRequest) (*pluginv1.CredentialProviderResponse, error) {
	return &pluginv1.CredentialProviderResponse{CacheKeyType: pluginv1.GlobalPluginCacheKeyType}, nil
}

// TestOrigins: a login from a pull secret has the secret's coordinates, and the kubelet's hash, which is that of the
// JSON of its name, password and email. Those of the node have none.
func TestOrigins(t *testing.T) {
	dir := t.TempDir()
	node := write(t, filepath.Join(dir, "config.json"), dockerConfig("quay.io=node"), 0o600)
	config := `{"auths":{"quay.io":{"username":"me","password":"a<b>&c","email":"me@example.com"}}}`
	object := pullSecret(config)
	object.UID = "uid-1"
	k, err := New(Config{Files: []string{node}, Secrets: secrets{"api/pull": object, "file/pull": pullSecret(config), "file2/pull": pullSecret(config)}})
	if err != nil {
		t.Fatal(err)
	}
	// printf '{"username":"me","password":"a\\u003cb\\u003e\\u0026c","email":"me@example.com"}' | sha256sum
	const hash = "79866211a5a506150f5701f0b2d0812e2c7e333803585df17f81882a6f8247c6"
	uids := map[string]string{}
	for _, source := range []string{"api", "file", "file2"} {
		p := pod("pull")
		p.Annotations["kubernetes.io/config.source"] = source
		got := k.Lookup(t.Context(), p, "quay.io/app")
		if len(got) != 2 || got[0].Secret == nil || got[1].Secret != nil || got[1].Username != "node" {
			t.Fatalf("%s: %+v", source, got)
		}
		if diff := cmp.Diff(got[:1], k.Secrets(p, "quay.io/app")); diff != "" {
			t.Errorf("%s: Secrets differs (-want +got):\n%s", source, diff)
		}
		want := imageaccess.Secret{UID: got[0].Secret.UID, Namespace: "default", Name: "pull", CredentialHash: hash}
		if diff := cmp.Diff(want, *got[0].Secret); diff != "" {
			t.Errorf("%s (-want +got):\n%s", source, diff)
		}
		uids[source] = got[0].Secret.UID
	}
	if uids["api"] != "uid-1" || uids["file"] == uids["file2"] || len(uids["file"]) < 10 {
		t.Errorf("UIDs %v", uids)
	}
	// An author of a manifest can't have another one's coordinates.
	held := pullSecret(config)
	held.UID = "uid-1"
	forger, err := New(Config{Secrets: secrets{"file/pull": held}})
	if err != nil {
		t.Fatal(err)
	}
	if got := forger.Secrets(pod("pull"), "quay.io/app")[0].Secret.UID; got != uids["file"] {
		t.Errorf("a Secret beside manifests has the UID %s", got)
	}
}
