package nodecert

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfig is the current context of a kubeconfig.
type kubeconfig struct {
	config  *rest.Config
	cluster *clientcmdapi.Cluster
	// cert is the client's certificate; nil if it names none.
	cert *tls.Certificate
	// credentials reports whether it has any credentials.
	credentials bool
}

// readKubeconfig reads the file and the files that it names, except tokens, which client-go reads again itself.
// paths are the latter, also if they are unusable.
func readKubeconfig(path string) (k *kubeconfig, paths []string, err error) {
	raw, err := clientcmd.LoadFromFile(path)
	if notRead := (*fs.PathError)(nil); errors.As(err, &notRead) {
		return nil, nil, err
	} else if err != nil {
		// The decoder's error quotes the file, which may hold a key.
		return nil, nil, fmt.Errorf("%s isn't a kubeconfig", path)
	}
	if err := clientcmd.ResolveLocalPaths(raw); err != nil {
		return nil, nil, fmt.Errorf("paths in %s: %w", path, err)
	}
	k = &kubeconfig{}
	if now := raw.Contexts[raw.CurrentContext]; now != nil {
		k.cluster = raw.Clusters[now.Cluster]
		if user := raw.AuthInfos[now.AuthInfo]; user != nil {
			paths = append(paths, user.ClientCertificate, user.ClientKey)
		}
	}
	if k.cluster == nil {
		return nil, nil, fmt.Errorf("%s has no current context with a cluster", path)
	}
	paths = append(paths, k.cluster.CertificateAuthority)
	if k.config, err = clientcmd.NewDefaultClientConfig(*raw, &clientcmd.ConfigOverrides{}).ClientConfig(); err != nil {
		return nil, paths, fmt.Errorf("%s: %w", path, err)
	}
	if err := rest.LoadTLSFiles(k.config); err != nil {
		return nil, paths, fmt.Errorf("files of %s: %w", path, err)
	}
	if c := k.config; len(c.CertData) > 0 {
		pair, err := tls.X509KeyPair(c.CertData, c.KeyData)
		if err != nil {
			return nil, paths, fmt.Errorf("the client's certificate in %s: %w", path, err)
		}
		k.cert = &pair
	}
	c := k.config
	k.credentials = k.cert != nil || c.BearerToken != "" || c.BearerTokenFile != "" || c.Username != "" || c.ExecProvider != nil || c.AuthProvider != nil
	return k, paths, nil
}

// writeKubeconfig writes a kubeconfig for the cluster with the certificate and key at pem.
func writeKubeconfig(path string, cluster *clientcmdapi.Cluster, pem string) error {
	return saveKubeconfig(path, &clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"default-cluster": cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"default-auth": {ClientCertificate: pem, ClientKey: pem}},
		Contexts:       map[string]*clientcmdapi.Context{"default-context": {Cluster: "default-cluster", AuthInfo: "default-auth", Namespace: "default"}},
		CurrentContext: "default-context",
	})
}

// nameCertificate sets the certificate and key of a kubeconfig's current user to those at pem. All else stays.
func nameCertificate(path, pem string) error {
	raw, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return fmt.Errorf("%s isn't a kubeconfig", path)
	}
	now := raw.Contexts[raw.CurrentContext]
	if now == nil || raw.AuthInfos[now.AuthInfo] == nil {
		return fmt.Errorf("%s has no current user", path)
	}
	user := raw.AuthInfos[now.AuthInfo]
	if len(user.ClientCertificateData) == 0 && user.ClientCertificate == pem {
		return nil
	}
	user.ClientCertificate, user.ClientKey, user.ClientCertificateData, user.ClientKeyData = pem, pem, nil, nil
	return saveKubeconfig(path, raw)
}

// saveKubeconfig replaces the file atomically, behind a symbolic link too. Only its owner may read it.
func saveKubeconfig(path string, config *clientcmdapi.Config) error {
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encode the kubeconfig: %w", err)
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("directory of the kubeconfig: %w", err)
	}
	if err := renameio.WriteFile(path, data, 0o600, renameio.IgnoreUmask()); err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	return nil
}
