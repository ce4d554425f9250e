package sourceconfig

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/client/shard"
	"github.com/podstream/podstream/internal/sources/apiserver"
	httpsource "github.com/podstream/podstream/internal/sources/http"
)

// DefaultManifestPath is read if no source is configured.
const DefaultManifestPath = "/etc/podstream/manifests"

// defaultCheckFrequency is the kubelet's, for files and URLs.
const defaultCheckFrequency = 20 * time.Second

// Flags are the flags that configure sources. Add them to a set before it is parsed.
type Flags struct {
	fs *pflag.FlagSet

	manifestPaths, manifestURLs, urlHeaders, relays []string
	urlTLS, relayTLS                                TLSFiles
	artifacts                                       artifactSettings
	fileCheckFrequency, httpCheckFrequency          time.Duration
	kubeconfig, clusterUID, relayOrder              string
	watchSecrets                                    string
	inCluster, strict, applied                      bool
	shard, shards                                   int
	nodes, order                                    []string
}

// sourceFlags name sources: if one of them is given, the default path isn't read.
var sourceFlags = []string{"pod-manifest-path", "manifest-url", "oci-artifact", "relay-from", "kubeconfig", "in-cluster"}

// AddFlags adds the flags to fs, which later reports which of them were given.
func (f *Flags) AddFlags(fs *pflag.FlagSet) {
	f.fs = fs
	fs.StringArrayVar(&f.manifestPaths, "pod-manifest-path", []string{DefaultManifestPath},
		"`[name=]path` of a directory of pod manifests, or of one manifest; repeatable: the source is \"file\", with a name \"file:name\"; "+
			"an empty value means that no manifests are read, and so does a configuration file or the flag of another source without this one")
	fs.DurationVar(&f.fileCheckFrequency, "file-check-frequency", defaultCheckFrequency, "`time` between full readings of the manifest paths")
	fs.StringArrayVar(&f.manifestURLs, "manifest-url", nil,
		"`[name=]url` to get pods from; repeatable: the source is \"http\", with a name \"http:name\"")
	fs.StringArrayVar(&f.urlHeaders, "manifest-url-header", nil,
		"`[name=]key:value[,key:value]` of HTTP headers for the manifest URLs, or for the one of that name; repeatable")
	fs.StringVar(&f.urlTLS.CAFile, "manifest-url-ca-file", "", "`file` of the CAs of those manifest URLs that are https; default: the system's")
	fs.StringVar(&f.urlTLS.CertFile, "manifest-url-cert-file", "", "`file` of the client certificate for the manifest URLs")
	fs.StringVar(&f.urlTLS.KeyFile, "manifest-url-key-file", "", "`file` of the key of --manifest-url-cert-file")
	fs.DurationVar(&f.httpCheckFrequency, "http-check-frequency", defaultCheckFrequency, "`time` between readings of the manifest URLs")
	f.artifacts.addFlags(fs)
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `file` for the API server, the source \"api\"; empty: there is none")
	fs.BoolVar(&f.inCluster, "in-cluster", false, "use the API server that podconfigd's own pod belongs to")
	fs.StringVar(&f.clusterUID, "api-cluster-uid", "", "`uid` of Service default/kubernetes of the cluster that the API server must be of, "+
		"over the one that --root-dir stores; empty: that one, or else the first that answers")
	fs.StringVar(&f.watchSecrets, "watch-secrets", string(apiserver.WatchName), "`scope` of a watch of Secrets at the API server, with --nodes: name, "+
		"a watch for each Secret that pods refer to, or namespace, one for all in a namespace, where the role allows that")
	fs.StringArrayVar(&f.relays, "relay-from", nil,
		"`[name=]address[,address]` of a podconfigd whose pods are taken over, unix:///path or tcp://host:port; of several addresses, or of "+
			"a host with several, a healthy one is used; repeatable: the source is \"relay\", with a name \"relay:name\"")
	fs.StringVar(&f.relayOrder, "relay-address-order", string(client.Random),
		"`order` in which several addresses of --relay-from are tried: random, which spreads the nodes, and spreads them again 4 to 7 "+
			"minutes after one was away, or listed, which goes back to the first one after 10 to 15 minutes")
	fs.StringVar(&f.relayTLS.CAFile, "relay-ca-file", "", "`file` of the CAs of the podconfigds of --relay-from")
	fs.StringVar(&f.relayTLS.CertFile, "relay-cert-file", "", "`file` of the client certificate for --relay-from")
	fs.StringVar(&f.relayTLS.KeyFile, "relay-key-file", "", "`file` of the key of --relay-cert-file")
	fs.StringSliceVar(&f.nodes, "nodes", nil, "`names` of the nodes whose pods the API server and relays are asked for; \"*\" means all; "+
		"default: this node")
	fs.IntVar(&f.shard, "shard", 0, "`number` of the shard of the cluster's nodes whose pods the API server is asked for, from 0, with --nodes=* and --total-shards")
	fs.IntVar(&f.shards, "total-shards", 1, "`number` of shards between which gateways divide the nodes, by a hash of their names; a node finds "+
		"its gateway by {shard/N} in --podconfig-endpoint")
	fs.StringSliceVar(&f.order, "source-order", nil,
		"kinds or names of `sources` in order of priority: of two pods with one name the first source's runs; default: file,http,oci,relay,api")
	fs.BoolVar(&f.applied, "applied", false, "take pods that root and callers with the role deployer write (podctl apply), into the source "+
		"\"applied\", which has a store in --root-dir and is the last one in order of priority; a caller that may write a pod without "+
		"podSecurity is root on this node")
	fs.BoolVar(&f.strict, "strict-manifests", false, "refuse manifests with unknown or doubled fields instead of warning")
}

// given reports whether one of the flags was given.
func (f *Flags) given(names ...string) bool { return slices.ContainsFunc(names, f.fs.Changed) }

// Check returns the errors of single flags.
func (f *Flags) Check() error {
	if f.fileCheckFrequency <= 0 || f.httpCheckFrequency <= 0 {
		return errors.New("--file-check-frequency and --http-check-frequency must be more than zero")
	}
	if f.kubeconfig != "" && f.inCluster {
		return errors.New("--kubeconfig and --in-cluster don't go together")
	}
	if f.shards < 1 || f.shards > shard.Max || f.shard < 0 || f.shard >= f.shards {
		return fmt.Errorf("--shard=%d --total-shards=%d: want --total-shards from 1 to %d, and a --shard below it", f.shard, f.shards, shard.Max)
	}
	if err := apiserver.WatchScope(f.watchSecrets).Check(); err != nil {
		return fmt.Errorf("--watch-secrets %q: %w", f.watchSecrets, err)
	}
	return nil
}

// flagPlace returns errors about a flag and its value, or about the flag that stands for a field.
func flagPlace(flag, value string, fields map[string]string) place {
	return func(field, reason string) error {
		if other, ok := fields[field]; ok {
			return fmt.Errorf("--%s: %s", other, reason)
		}
		return fmt.Errorf("--%s %s: %s", flag, value, reason)
	}
}

// cutName splits NAME=VALUE. A path or URL may have an equals sign too; a name can't have what these begin with.
func cutName(value string) (name, rest string, named bool) {
	name, rest, named = strings.Cut(value, "=")
	if !named || strings.ContainsAny(name, "/:") {
		return "", value, false
	}
	return name, rest, true
}

// perValue makes a draft of each value of a flag; one empty value alone means none.
func perValue(flag string, values []string, fields map[string]string, draftOf func(value string) draft) ([]draft, error) {
	if len(values) == 1 && values[0] == "" {
		return nil, nil
	}
	var out []draft
	var mistakes []error
	for _, value := range values {
		name, rest, named := cutName(value)
		d := draftOf(rest)
		d.short = name
		d.at = flagPlace(flag, shown(d, named), fields)
		if named && name == "" {
			mistakes = append(mistakes, d.at("", "the name is empty"))
		}
		out = append(out, d)
	}
	return out, errors.Join(mistakes...)
}

// shown is a flag's value without credentials.
func shown(d draft, named bool) string {
	value := d.path + d.address
	if d.kind == OCI {
		value = d.oci.Reference
	}
	if d.kind == HTTP {
		value = httpsource.Location(d.url)
	}
	if named {
		value = d.short + "=" + value
	}
	if value == "" {
		value = `""`
	}
	return value
}

func (f *Flags) fileDrafts() ([]draft, error) {
	drafts, err := perValue("pod-manifest-path", f.manifestPaths, nil, func(path string) draft {
		return draft{kind: File, path: path}
	})
	if err != nil {
		return nil, err
	}
	for i, d := range drafts {
		if d.path == "" {
			continue
		}
		if drafts[i].path, err = filepath.Abs(d.path); err != nil {
			return nil, d.at("", err.Error())
		}
	}
	return drafts, nil
}

func (f *Flags) urlDrafts() ([]draft, error) {
	return perValue("manifest-url", f.manifestURLs, urlFlags, func(value string) draft {
		return draft{kind: HTTP, url: value, tls: f.tlsFor(value)}
	})
}

// tlsFor returns the certificates of the flags, which several URLs share, for those of them that can use them.
func (f *Flags) tlsFor(rawURL string) TLSFiles {
	if u, err := url.Parse(rawURL); err == nil && u.Scheme == "https" {
		return f.urlTLS
	}
	return TLSFiles{}
}

func (f *Flags) relayDrafts() ([]draft, error) {
	return perValue("relay-from", f.relays, relayFlags, func(address string) draft {
		d := draft{kind: Relay, address: address, addressOrder: f.relayOrder}
		if !strings.HasPrefix(address, "unix://") {
			d.tls = f.relayTLS
		}
		return d
	})
}

// idle warns of flags of certificates that no draft can use.
func (f *Flags) idle(prefix, what string, drafts []draft) (warnings []string) {
	if slices.ContainsFunc(drafts, func(d draft) bool { return d.tls != TLSFiles{} }) {
		return nil
	}
	for _, file := range []string{"ca", "cert", "key"} {
		flag := prefix + "-" + file + "-file"
		if value := f.fs.Lookup(flag).Value.String(); value != "" {
			warnings = append(warnings, fmt.Sprintf("--%s: there is no %s that it is for", flag, what))
		}
	}
	return warnings
}

func (f *Flags) apiDrafts() []draft {
	d := draft{kind: API, kubeconfig: f.kubeconfig, inCluster: f.inCluster, at: flagPlace("kubeconfig", f.kubeconfig, nil)}
	if d.kubeconfig == "" && !d.inCluster {
		return nil
	}
	return []draft{d}
}

// pinCluster gives the API server the UID of the flag.
func (f *Flags) pinCluster(drafts []draft) (pinned []draft, warnings []string) {
	if !f.given("api-cluster-uid") {
		return drafts, nil
	}
	if len(drafts) == 0 {
		return nil, []string{"--api-cluster-uid: there is no API server that it is for"}
	}
	pinned = slices.Clone(drafts)
	for i, d := range drafts {
		pinned[i].clusterUID = f.clusterUID
		pinned[i].at = func(field, reason string) error {
			if field == "clusterUID" {
				return fmt.Errorf("--api-cluster-uid: %s", reason)
			}
			return d.at(field, reason)
		}
	}
	return pinned, nil
}

// Which flags stand for which fields of an entry.
var (
	urlFlags = map[string]string{
		"caFile": "manifest-url-ca-file", "certFile": "manifest-url-cert-file", "keyFile": "manifest-url-key-file",
		"headers": "manifest-url-header",
	}
	relayFlags = map[string]string{
		"addressOrder": "relay-address-order", "caFile": "relay-ca-file", "certFile": "relay-cert-file", "keyFile": "relay-key-file",
	}
)
