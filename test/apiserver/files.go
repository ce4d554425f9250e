package apiserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const (
	// URL is the API server's.
	URL = "https://127.0.0.1:6443"
	// EtcdURL is etcd's.
	EtcdURL = "http://127.0.0.1:2379"
	// Token is that of the node, and of the test.
	Token = "test"
)

// Files are the files of both programs.
type Files struct {
	// Dir is an existing directory.
	Dir string
	// Node is the name of the node that has the Token.
	Node string
}

func (f Files) path(name string) string { return filepath.Join(f.Dir, name) }

// Kubeconfig is the path of the node's kubeconfig.
func (f Files) Kubeconfig() string { return f.path("kubeconfig") }

// Write writes what the API server reads, and the node's kubeconfig.
func (f Files) Write() error {
	return errors.Join(
		os.WriteFile(f.path("tokens"), []byte(Token+",system:node:"+f.Node+",node,system:nodes\n"), 0o600),
		writeKey(f.path("accounts.key")),
		os.WriteFile(f.Kubeconfig(), []byte(f.kubeconfig()), 0o600))
}

// kubeconfig is the node's. The server signs its own certificate.
func (f Files) kubeconfig() string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: u, user: {token: %q}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`, URL, filepath.Join(f.path("certs"), "apiserver.crt"), Token)
}

// writeKey writes a new key for the tokens of service accounts.
func writeKey(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

// EtcdFlags are etcd's flags.
func (f Files) EtcdFlags() []string {
	return []string{
		"--name=etcd", "--data-dir=" + f.path("etcd"), "--listen-client-urls=" + EtcdURL, "--advertise-client-urls=" + EtcdURL,
		"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
		"--initial-cluster=etcd=http://127.0.0.1:2380", "--log-level=warn", "--unsafe-no-fsync",
	}
}

// ServerFlags are the API server's flags.
func (f Files) ServerFlags() []string {
	return []string{
		"--etcd-servers=" + EtcdURL, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=6443",
		"--endpoint-reconciler-type=none", "--cert-dir=" + f.path("certs"), "--token-auth-file=" + f.path("tokens"),
		"--authorization-mode=AlwaysAllow", "--disable-admission-plugins=ServiceAccount", "--service-cluster-ip-range=10.96.0.0/24",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + f.path("accounts.key"),
		"--service-account-signing-key-file=" + f.path("accounts.key"),
	}
}
