package control

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Loopback is the address of all servers.
const Loopback = "127.0.0.1"

// ServerName is a name of all servers, for clients that reach them at other addresses.
const ServerName = "kubernetes.default.svc"

// CertificateLife is how long certificates are valid that are not part of a test.
const CertificateLife = 24 * time.Hour

// Authority signs the certificates of the server and its clients.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// File is the certificate, which verifies others. KeyFile is its key, for other processes that sign.
	File, KeyFile string
	// Addresses are those of this machine besides Loopback for which it is valid as a server.
	Addresses []net.IP
}

// NewAuthority returns a new Authority, with its files in that directory.
func NewAuthority(dir string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cluster-ca"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(CertificateLife),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	a := &Authority{cert: cert, key: key, File: filepath.Join(dir, "ca.pem"), KeyFile: filepath.Join(dir, "ca.key")}
	private, err := encodeKey(key)
	return a, errors.Join(err, os.WriteFile(a.File, encode("CERTIFICATE", der), 0o600), os.WriteFile(a.KeyFile, private, 0o600))
}

// Issue returns a certificate and its key in one PEM text, like the kubelet's file. It is valid for this
// machine as a server, and everywhere as a client.
func (a *Authority) Issue(name, group string, notAfter time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, Organization: []string{group}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: notAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: append([]net.IP{net.ParseIP(Loopback)}, a.Addresses...), DNSNames: []string{ServerName},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	private, err := encodeKey(key)
	return append(encode("CERTIFICATE", der), private...), err
}

// newKeyPair writes a private key that signs service accounts' tokens, and the public key that verifies them.
func newKeyPair(private, public string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	text, err := encodeKey(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(private, text, 0o600); err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return os.WriteFile(public, encode("PUBLIC KEY", der), 0o600)
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return encode("PRIVATE KEY", der), err
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// ReplaceFile renames the content into place, as a rotation of credentials must.
func ReplaceFile(path string, content []byte) error {
	temp := path + ".new"
	if err := os.WriteFile(temp, content, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// Kubeconfig returns a kubeconfig for the server, with the user's credentials.
func (a *Authority) Kubeconfig(server string, user clientcmdapi.AuthInfo) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: server, CertificateAuthority: a.File}
	config.AuthInfos["user"] = &user
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "user"}
	config.CurrentContext = "test"
	return config
}

// WriteKubeconfig writes a kubeconfig for the server, with the certificate and key of a file.
func (a *Authority) WriteKubeconfig(path, server, credentials string) error {
	return a.WriteKubeconfigFor(path, server, "", credentials)
}

// WriteKubeconfigFor is WriteKubeconfig with the name that the server's certificate must have. Empty: that of the URL.
func (a *Authority) WriteKubeconfigFor(path, server, serverName, credentials string) error {
	config := a.Kubeconfig(server, clientcmdapi.AuthInfo{ClientCertificate: credentials, ClientKey: credentials})
	config.Clusters["test"].TLSServerName = serverName
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
