package podconfigd

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/client/shard"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/service"
	"github.com/podstream/podstream/internal/sourceconfig"
	"github.com/podstream/podstream/internal/sources"
	"github.com/podstream/podstream/internal/sources/apiserver"
	"github.com/podstream/podstream/internal/sources/applied"
	"github.com/podstream/podstream/internal/sources/file"
	"github.com/podstream/podstream/internal/sources/http"
	"github.com/podstream/podstream/internal/sources/oci"
	"github.com/podstream/podstream/internal/sources/relay"
)

// clusterFile is the name of the file in --root-dir that stores the UID of the API server's cluster.
const clusterFile = "api-cluster.json"

// artifactsDir is the name of the directory in --root-dir in which sources of artifacts store these.
const artifactsDir = "oci"

// appliedDir is the name of the directory in --root-dir of the source applied.
const appliedDir = "applied"

// builder makes the readers of sources. None of them connects before it runs.
type builder struct {
	// id and node are podconfigd's own. rootDir is where sources may keep state; empty: nowhere.
	id, node, rootDir string
	fileQuietPeriod   time.Duration
	// relayPods and relayBytes are relay.Config's MaxPods and MaxBytes.
	relayPods, relayBytes int
	// history has the known pods of a source: from before the restart, or from its previous reader. Nil: there are
	// none.
	history *history.History
	log     *slog.Logger
}

// build makes the reader of one entry of a plan. Its errors name the source.
func (b *builder) build(s sourceconfig.Source) (sources.Source, error) {
	switch s.Kind {
	case sourceconfig.File:
		return file.New(file.Config{
			Name: s.Name, Path: s.File.Path, Node: b.node, Strict: s.File.Strict, CheckFrequency: s.File.CheckFrequency,
			QuietPeriod: b.fileQuietPeriod, Known: func() []string { return b.podOrigins(s.Name) }, PlaceFile: b.placeFile(s.Name), Logger: b.log,
		}), nil
	case sourceconfig.HTTP:
		return http.New(http.Config{
			Name: s.Name, URL: s.HTTP.URL, Headers: s.HTTP.Headers, CAFile: s.HTTP.CAFile, CertFile: s.HTTP.CertFile, KeyFile: s.HTTP.KeyFile,
			Node: b.node, Strict: s.HTTP.Strict, CheckFrequency: s.HTTP.CheckFrequency,
			Known: func() []string { return b.origins(s) }, Logger: b.log,
		})
	case sourceconfig.OCI:
		return oci.New(oci.Config{
			Name: s.Name, Reference: s.OCI.Reference, PublicKeyFile: s.OCI.PublicKeyFile, AnyRepository: s.OCI.AnyRepository, Monotonic: s.OCI.Monotonic,
			CredentialsFile: s.OCI.CredentialsFile, TokenHost: s.OCI.TokenHost, CAFile: s.OCI.CAFile, Insecure: s.OCI.Insecure,
			Interval: s.OCI.Interval, Dir: b.artifactDir(s.Name), Node: b.node, Strict: s.OCI.Strict, Logger: b.log,
		})
	case sourceconfig.Relay:
		endpoint, err := shard.Expand(s.Relay.Address, onlyNode(s.Relay.Nodes, b.node))
		if err != nil {
			return nil, fmt.Errorf("source %s: %s: %w", s.Name, s.Relay.Address, err)
		}
		return relay.New(relay.Config{
			Name: s.Name, Endpoint: endpoint, Order: s.Relay.AddressOrder, CAFile: s.Relay.CAFile, CertFile: s.Relay.CertFile, KeyFile: s.Relay.KeyFile,
			ID: b.id, Node: b.node, Nodes: s.Relay.Nodes, Stored: func() []relay.Stored { return b.stored(s.Name) },
			Positions: func() position.Positions { return b.positions(s.Name) }, MaxPods: b.relayPods, MaxBytes: b.relayBytes, Logger: b.log,
		})
	case sourceconfig.API:
		cfg := apiserver.Config{
			InCluster: s.API.InCluster, Node: b.node, Nodes: s.API.Nodes, ChangeDetection: s.API.ChangeDetection,
			WatchSecrets: s.API.WatchSecrets, Shard: s.API.Shard, Shards: s.API.Shards,
			ClusterUID: s.API.ClusterUID, ClusterFile: b.inRoot(clusterFile), Known: func() []types.UID { return b.uids(s.Name) },
			Positions: func() position.Positions { return b.positions(s.Name) }, Logger: b.log,
		}
		if !s.API.InCluster {
			var err error
			if cfg.RESTConfig, err = restConfig(s.API.Kubeconfig, s.API.Data); err != nil {
				return nil, fmt.Errorf("source %s: kubeconfig %s: %w", s.Name, s.API.Kubeconfig, err)
			}
		}
		return apiserver.New(cfg)
	case sourceconfig.Applied:
		return applied.New(applied.Config{
			Dir: b.inRoot(appliedDir), Node: b.node, Known: func() bool { return len(b.pods(s.Name)) > 0 },
			Recovered: b.recovered, Logger: b.log,
		}), nil
	default:
		return nil, fmt.Errorf("source %s: there is no reader of the kind %q", s.Name, s.Kind)
	}
}

// recovered logs a write that was stored before the start.
func (b *builder) recovered(note []byte) {
	st := b.history.State()
	service.LogRecovered(b.log, note, st.Instance.ID, st.Number)
}

// restConfig returns the client configuration of a kubeconfig. data was read from path and checked already, as the
// plan was made from the same bytes. The client reads the files that it names, and again when they change.
func restConfig(path string, data []byte) (*rest.Config, error) {
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil, errors.New("it isn't a kubeconfig")
	}
	for _, cluster := range config.Clusters {
		cluster.LocationOfOrigin = path
	}
	for _, user := range config.AuthInfos {
		user.LocationOfOrigin = path
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return nil, err
	}
	return clientcmd.NewDefaultClientConfig(*config, &clientcmd.ConfigOverrides{}).ClientConfig()
}

// pods returns the known pods of a source.
func (b *builder) pods(source string) []*revision.Pod {
	if b.history == nil {
		return nil
	}
	var out []*revision.Pod
	for _, p := range b.history.State().Pods {
		if p.Source == source {
			out = append(out, p)
		}
	}
	return out
}

// positions returns how far a source's known pods follow their clusters.
func (b *builder) positions(source string) position.Positions {
	if b.history == nil {
		return nil
	}
	return b.history.Positions().Of(source)
}

// podOrigins returns the origins of a source's known pods.
func (b *builder) podOrigins(source string) []string {
	var out []string
	for _, p := range b.pods(source) {
		out = append(out, p.Origin)
	}
	return out
}

// placeFile returns the file in which a file source stores its mount.
func (b *builder) placeFile(source string) string {
	return b.inRoot("place-" + url.PathEscape(source) + ".json")
}

// artifactDir returns the directory in which a source of an artifact stores that.
func (b *builder) artifactDir(source string) string {
	return b.inRoot(filepath.Join(artifactsDir, url.PathEscape(source)))
}

// inRoot returns the path of a file in rootDir; empty: it can't be kept.
func (b *builder) inRoot(name string) string {
	if b.rootDir == "" {
		return ""
	}
	return filepath.Join(b.rootDir, name)
}

// uids returns the UIDs of a source's known pods.
func (b *builder) uids(source string) []types.UID {
	var out []types.UID
	for _, p := range b.pods(source) {
		out = append(out, p.Object.UID)
	}
	return out
}

// origins returns the origins of a URL's known pods, and of the objects that these refer to.
func (b *builder) origins(s sourceconfig.Source) []string {
	var out []string
	for _, p := range b.pods(s.Name) {
		out = append(out, p.Origin)
		for _, key := range append(manifest.References(p.Object), manifest.Claims(p.Object)...) {
			out = append(out, http.ObjectOrigin(s.HTTP.URL, key))
		}
	}
	return out
}

// stored returns the known pods of a source in a relay's form.
func (b *builder) stored(source string) []relay.Stored {
	var out []relay.Stored
	for _, p := range b.pods(source) {
		out = append(out, relay.Stored{Origin: p.Origin, Pod: p.Object, SpecDigest: p.SpecDigest, StatusDigest: p.StatusDigest})
	}
	return out
}
