package apitest

import (
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Identity is a client's credentials. The zero value has none.
type Identity struct {
	Token string
	// TokenFile, CertFile and KeyFile are paths, which the client reads again when they change.
	TokenFile         string
	CertFile, KeyFile string
}

// RESTConfig returns a client's configuration.
func (s *Server) RESTConfig(who Identity) *rest.Config {
	cfg := &rest.Config{Host: s.URL(), BearerToken: who.Token, BearerTokenFile: who.TokenFile}
	cfg.CertFile, cfg.KeyFile = who.CertFile, who.KeyFile
	if s.cfg.CA != nil {
		cfg.CAData = s.cfg.CA.PEM
	}
	return cfg
}

// Kubeconfig writes the same as a kubeconfig into a directory of the test's, and returns its path. Without TLS a
// kubeconfig has no credentials.
func (s *Server) Kubeconfig(who Identity) string {
	s.t.Helper()
	cluster := &clientcmdapi.Cluster{Server: s.URL()}
	if s.cfg.CA != nil {
		cluster.CertificateAuthorityData = s.cfg.CA.PEM
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = cluster
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{
		Token: who.Token, TokenFile: who.TokenFile, ClientCertificate: who.CertFile, ClientKey: who.KeyFile,
	}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	path := filepath.Join(s.t.TempDir(), "kubeconfig")
	data, err := clientcmd.Write(*config)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}
