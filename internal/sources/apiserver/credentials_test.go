package apiserver

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

func TestTokenFileIsReadAgainWhenItIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	certtest.WriteFile(t, file, []byte("old\n"))
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	server.Admit("old")
	server.Put(newPod("a"))
	r := start(t, newSource(t, Config{Kubeconfig: server.Kubeconfig(apitest.Identity{TokenFile: file})}))
	_, at := r.awaitPods(0, "ns/a")
	server.AwaitWatches("pods", 1)

	server.Admit("new")
	server.EndWatches()
	set, at := r.awaitErr(at)
	if !strings.Contains(set.Err.Error(), "Unauthorized") {
		t.Errorf("the error is %q", set.Err)
	}
	certtest.WriteFile(t, file, []byte("new\n"))
	server.Put(newPod("b"))
	r.awaitPods(at, "ns/a", "ns/b")
}

func TestClientCertificateRotates(t *testing.T) {
	ca := certtest.NewCA(t, "cluster")
	dir := t.TempDir()
	files := apitest.Identity{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	issue := func(name string) {
		certificate, key := ca.Issue(certtest.Request{CommonName: name})
		certtest.WriteFile(t, files.CertFile, certificate)
		certtest.WriteFile(t, files.KeyFile, key)
	}
	for name, end := range map[string]func(*apitest.Server){
		"the connection is lost":  (*apitest.Server).DropConnections,
		"the connection is there": (*apitest.Server).EndWatches,
	} {
		t.Run(name, func(t *testing.T) {
			issue("system:node:old")
			server := apitest.New(t, apitest.Config{CA: ca})
			server.Admit("system:node:old")
			server.Put(newPod("a"))
			r := start(t, newSource(t, Config{Kubeconfig: server.Kubeconfig(files)}))
			_, at := r.awaitPods(0, "ns/a")
			server.AwaitWatches("pods", 1)
			issue("system:node:new")
			server.Admit("system:node:new")
			end(server)
			server.Put(newPod("b"))
			r.awaitPods(at, "ns/a", "ns/b")
			server.AwaitWatches("pods", 1)
			if user := server.View().Watches[0].User; user != "system:node:new" {
				t.Errorf("the watch is of %q", user)
			}
		})
	}
}
