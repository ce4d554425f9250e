package apiserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

func TestKubeconfig(t *testing.T) {
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	server.Admit("secret")
	server.Put(newPod("a"))
	path := server.Kubeconfig(apitest.Identity{Token: "secret"})
	start(t, newSource(t, Config{Kubeconfig: path})).awaitPods(0, "ns/a")
}

func TestBadConfig(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	missing, noYAML, noServer := filepath.Join(dir, "missing"), write("noyaml", "{"), write("noserver", "kind: Config\napiVersion: v1\n")
	noCA := write("noca", `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1", certificate-authority: gone.pem}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`)
	for name, test := range map[string]struct {
		cfg  Config
		want []string
	}{
		"none":         {Config{Node: node}, []string{"no kubeconfig"}},
		"no cluster":   {Config{Node: node, InCluster: true}, []string{"service account"}},
		"missing":      {Config{Node: node, Kubeconfig: missing}, []string{missing, "no such file"}},
		"no YAML":      {Config{Node: node, Kubeconfig: noYAML}, []string{noYAML, "yaml"}},
		"no server":    {Config{Node: node, Kubeconfig: noServer}, []string{noServer}},
		"missing CA":   {Config{Node: node, Kubeconfig: noCA}, []string{noCA, "gone.pem"}},
		"no node":      {Config{RESTConfig: &rest.Config{Host: "localhost"}}, []string{"node without a name"}},
		"nodeless":     {Config{RESTConfig: &rest.Config{Host: "localhost"}, Nodes: []string{"a", ""}}, []string{"node without a name"}},
		"no such host": {Config{Node: node, RESTConfig: &rest.Config{Host: "http://[::1"}}, []string{"address"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(test.cfg)
			if err == nil {
				t.Fatal("it was taken")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error is %q; want it to name %q", err, want)
				}
			}
		})
	}
}
