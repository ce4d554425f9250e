package sourceconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/podstream/podstream/internal/clusteruid"
	"github.com/podstream/podstream/internal/kubeletconfig"
	"github.com/podstream/podstream/internal/kubeletconfig/document"
	"github.com/podstream/podstream/internal/sources/apiserver"
	httpsource "github.com/podstream/podstream/internal/sources/http"
)

// inClusterLocation is the API server's Location if it is the one of podconfigd's own pod.
const inClusterLocation = "in-cluster"

func (c *checker) api(d draft, s *Source) {
	s.API = &APISettings{
		Kubeconfig: d.kubeconfig, InCluster: d.inCluster, Nodes: c.plan.Nodes, ChangeDetection: c.detection, WatchSecrets: c.watchSecrets,
	}
	if c.shards > 1 {
		s.API.Shard, s.API.Shards = c.shard, c.shards
	}
	if d.clusterUID != "" {
		s.API.ClusterUID = types.UID(d.clusterUID)
		if err := clusteruid.Check(s.API.ClusterUID); err != nil {
			c.wrong(d, "clusterUID", err.Error())
		}
	}
	s.Location = inClusterLocation
	if (d.kubeconfig == "") != d.inCluster {
		c.wrong(d, "", "want either a kubeconfig, or inCluster: true")
		return
	}
	if d.inCluster {
		return
	}
	data, err := c.readFile(d.kubeconfig)
	if err == nil {
		s.Location, err = c.server(d.kubeconfig, data)
	}
	if err != nil {
		// The server isn't known.
		s.Location = d.kubeconfig
		c.unusable(d, "kubeconfig", err.Error())
		return
	}
	sum := sha256.Sum256(data)
	s.API.Data, s.API.Digest = data, hex.EncodeToString(sum[:])
}

// checkShards returns an error unless shards divide all nodes of an API server.
func (c *checker) checkShards() error {
	api := slices.ContainsFunc(c.plan.Sources, func(s Source) bool { return s.Kind == API })
	if c.shards > 1 && !(api && slices.Equal(c.plan.Nodes, []string{AllNodes})) {
		return fmt.Errorf("--total-shards %d: it divides all nodes of an API server: want one, and --nodes=*", c.shards)
	}
	return nil
}

// idleScope warns of --watch-secrets=namespace if nothing is watched by namespace.
func (c *checker) idleScope() []string {
	several := len(c.plan.Nodes) > 1 || slices.Equal(c.plan.Nodes, []string{AllNodes})
	api := slices.ContainsFunc(c.plan.Sources, func(s Source) bool { return s.Kind == API })
	if c.watchSecrets != apiserver.WatchNamespace || api && several && c.detection == apiserver.Watch {
		return nil
	}
	return []string{"--watch-secrets=namespace: there is no API server that is watched for several nodes"}
}

// changeDetection returns the value of the kubelet's configuration.
func changeDetection(kubelet *kubeletconfig.Config) (apiserver.ChangeDetection, error) {
	switch way := apiserver.ChangeDetection(kubelet.ConfigMapAndSecretChangeDetectionStrategy); way {
	case "":
		return apiserver.Watch, nil
	case apiserver.Watch, apiserver.Cache, apiserver.Get:
		return way, nil
	default:
		return "", kubelet.Mistake(document.Field{"configMapAndSecretChangeDetectionStrategy"}, "want Watch, Cache or Get")
	}
}

// server returns the API server of a kubeconfig. The files that it names must exist. No error quotes what may be a
// credential.
func (c *checker) server(path string, data []byte) (string, error) {
	cfg, err := clientcmd.Load(data)
	if err != nil {
		return "", notKubeconfig(path, data)
	}
	current, ok := cfg.Contexts[cfg.CurrentContext]
	if !ok || current == nil {
		return "", fmt.Errorf("%s: there is no context of the name that current-context has, %q", path, cfg.CurrentContext)
	}
	cluster, ok := cfg.Clusters[current.Cluster]
	if !ok || cluster == nil {
		return "", fmt.Errorf("%s: context %s: there is no cluster %q", path, cfg.CurrentContext, current.Cluster)
	}
	user, ok := cfg.AuthInfos[current.AuthInfo]
	if current.AuthInfo != "" && (!ok || user == nil) {
		return "", fmt.Errorf("%s: context %s: there is no user %q", path, cfg.CurrentContext, current.AuthInfo)
	}
	if !isURL(cluster.Server, "http", "https") {
		return "", fmt.Errorf("%s: cluster %s: server isn't a URL", path, current.Cluster)
	}
	if cluster.ProxyURL != "" && !isURL(cluster.ProxyURL, "http", "https", "socks5") {
		return "", fmt.Errorf("%s: cluster %s: proxy-url isn't a URL", path, current.Cluster)
	}
	if err := c.kubeconfigFiles(path, cluster, user); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return httpsource.Location(cluster.Server), nil
}

// notKubeconfig returns why. The decoder's own text quotes the file.
func notKubeconfig(path string, data []byte) error {
	if err := document.Syntax(path, data); err != nil {
		return err
	}
	return errors.New(path + " isn't a kubeconfig")
}

func isURL(raw string, schemes ...string) bool {
	u, err := url.Parse(raw)
	return err == nil && u.Host != "" && slices.Contains(schemes, u.Scheme)
}

// kubeconfigFiles reads the files that a kubeconfig names, relative to its directory.
func (c *checker) kubeconfigFiles(path string, cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) error {
	files := []struct{ field, path string }{{"certificate-authority", cluster.CertificateAuthority}}
	if user != nil {
		files = append(files, []struct{ field, path string }{
			{"client-certificate", user.ClientCertificate}, {"client-key", user.ClientKey}, {"tokenFile", user.TokenFile},
		}...)
	}
	for _, f := range files {
		if f.path == "" {
			continue
		}
		if !filepath.IsAbs(f.path) {
			f.path = filepath.Join(filepath.Dir(path), f.path)
		}
		if _, err := c.readFile(f.path); err != nil {
			return fmt.Errorf("%s: %w", f.field, err)
		}
	}
	return nil
}
