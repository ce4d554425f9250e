package sourceconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/kubeletconfig"
	"github.com/podstream/podstream/internal/kubeletconfig/document"
	"github.com/podstream/podstream/internal/sources/apiserver"
)

// Kind is the kind of a source, with which its name begins.
type Kind string

// The kinds, in their default order of priority.
const (
	File  Kind = "file"
	HTTP  Kind = "http"
	OCI   Kind = "oci"
	Relay Kind = "relay"
	API   Kind = "api"
	// Applied is always the last one: no caller that writes pods takes the name of a pod of another source.
	Applied Kind = "applied"
)

// kinds are those that the order of priority may name.
var kinds = []Kind{File, HTTP, OCI, Relay, API}

// AllNodes means every node; it must be alone in a list of nodes.
const AllNodes = "*"

// Plan has the configured sources. Two Plans with the same Fingerprints in the same order are equal.
type Plan struct {
	// Sources are in order of priority; their names are unique. There may be none.
	Sources []Source
	// Nodes are the nodes whose pods are requested from API server and relays. Nil: only the own one.
	Nodes []string
	// Strict refuses manifests with unknown fields.
	Strict bool
	// Ignored are set fields of the kubelet's configuration that Podstream doesn't read; Podexecd are those that
	// podexecd reads.
	Ignored, Podexecd []string
	// Warnings are suspicious settings that aren't errors, with file and line.
	Warnings []string
}

// Source is one entry of a Plan. One of the pointers is set, as its Kind says.
type Source struct {
	// Name is the source's name: KIND or KIND:NAME.
	Name string
	Kind Kind
	// Location is where it reads, without credentials.
	Location string
	// Fingerprint is a hash of the name and of all that the source is made from, except the files that it reads again
	// by itself.
	Fingerprint string `json:"-"`
	// Problem is why the source can't be made now: a file that it names is missing or invalid. All others work. Nil:
	// there is none.
	Problem error `json:"-"`

	File  *FileSettings
	HTTP  *HTTPSettings
	OCI   *OCISettings
	Relay *RelaySettings
	API   *APISettings
	// Applied is set on the source of written pods, which has no settings but podconfigd's own.
	Applied *AppliedSettings `json:",omitempty"`
}

// AppliedSettings are the settings of the source of written pods.
type AppliedSettings struct{}

// FileSettings are the settings of a manifest path.
type FileSettings struct {
	// Path is absolute.
	Path           string
	CheckFrequency time.Duration
	Strict         bool
}

// TLSFiles are paths of PEM files, absolute or relative to the working directory. Each may be empty; CertFile and
// KeyFile are set together.
type TLSFiles struct {
	CAFile, CertFile, KeyFile string
}

// HTTPSettings are the settings of a URL.
type HTTPSettings struct {
	// URL may have credentials.
	URL string
	// Headers may have credentials. Their names are canonical.
	Headers http.Header
	TLSFiles
	CheckFrequency time.Duration
	Strict         bool
}

// OCISettings are the settings of an artifact. Paths are absolute or relative to the working directory; those of files
// that aren't configured are empty.
type OCISettings struct {
	Reference                              string
	PublicKeyFile, CredentialsFile, CAFile string
	// TokenHost is another host that may have the credentials. Empty: none.
	TokenHost string
	// Interval is the time between readings.
	Interval time.Duration
	// Monotonic, AnyRepository and Insecure are oci.Config's.
	Monotonic, AnyRepository, Insecure bool
	Strict                             bool
}

// RelaySettings are the settings of another podconfigd.
type RelaySettings struct {
	// Address is unix:///path or tcp://host:port, or several of one kind with commas between. AddressOrder is the
	// order in which these are tried. Empty: client.Random.
	Address      string
	AddressOrder client.Order `json:",omitempty"`
	TLSFiles
	// Nodes are the Plan's.
	Nodes []string
}

// APISettings are the settings of the API server.
type APISettings struct {
	// Kubeconfig is a file's path. Empty if InCluster is set.
	Kubeconfig string
	InCluster  bool
	// Data is the file's content, and Digest its hash, so that a changed file makes another Fingerprint. Both are
	// empty if the Source has a Problem.
	Data   []byte `json:"-"`
	Digest string
	// ClusterUID is the UID of the only cluster that is used. Empty: see apiserver.Config.
	ClusterUID types.UID
	// Nodes are the Plan's.
	Nodes []string
	// ChangeDetection is how changes of ConfigMaps and Secrets are found.
	ChangeDetection apiserver.ChangeDetection
	// WatchSecrets is what one watch of Secrets covers.
	WatchSecrets apiserver.WatchScope
	// Shard is the shard of the nodes, of Shards. Zero Shards: there are none.
	Shard, Shards int `json:",omitempty"`
}

// Input is all that a Plan is made from.
type Input struct {
	// Files are those of --config and --config-dir.
	Files []kubeletconfig.File
	Flags *Flags
	// ReadFile reads the files that the configuration names. Nil: ReadFile of this package.
	ReadFile func(path string) ([]byte, error)
}

// maxFile is far larger than any certificate, key, bundle of CAs or kubeconfig.
const maxFile = 1 << 20

// ReadFile reads a file that the configuration names: a regular one, of 1 MiB at most.
func ReadFile(path string) ([]byte, error) { return kubeletconfig.ReadFile(path, maxFile) }

// maxSources is the maximum number of sources of a Plan.
const maxSources = 256

// Make makes the Plan. Its error has one line for each mistake, which begins with FILE:LINE or the flag. A file that
// a source names and that can't be used isn't a mistake, but that Source's Problem; if there are mistakes too, they
// are returned together.
func Make(in Input) (*Plan, error) {
	if in.ReadFile == nil {
		in.ReadFile = ReadFile
	}
	docs, err := kubeletconfig.Parse(in.Files)
	if err != nil {
		return nil, err
	}
	kubelet, kubeletErr := kubeletconfig.Merge(docs)
	written, err := decode(docs)
	if err := errors.Join(kubeletErr, err); err != nil {
		return nil, err
	}
	return assemble(in, kubelet, written)
}

// assemble combines flags, the kubelet's configuration and the documents.
func assemble(in Input, kubelet *kubeletconfig.Config, written *collected) (*Plan, error) {
	chosen, err := choose(in.Flags, kubelet, written)
	if err != nil {
		return nil, err
	}
	if n := len(chosen.drafts); n > maxSources {
		return nil, fmt.Errorf("there are %d sources; at most %d can be read", n, maxSources)
	}
	plan := &Plan{Strict: chosen.strict, Ignored: kubelet.Ignored(), Podexecd: kubelet.Podexecd()}
	var mistakes mistakes
	plan.Nodes, err = checkNodes(chosen.nodes)
	mistakes.add(err)
	check := checker{readFile: in.ReadFile, plan: plan, every: chosen.every, watchSecrets: apiserver.WatchScope(in.Flags.watchSecrets),
		shard: in.Flags.shard, shards: in.Flags.shards}
	check.detection, err = changeDetection(kubelet)
	mistakes.add(err)
	seen := map[string]bool{}
	for _, d := range chosen.drafts {
		if seen[d.name()] {
			mistakes.add(d.at("name", fmt.Sprintf("there is a source %s already; give each a name of its own", d.name())))
			continue
		}
		seen[d.name()] = true
		src, wrong := check.source(d)
		mistakes.add(wrong...)
		mistakes.addProblem(src.Problem)
		plan.Sources = append(plan.Sources, src)
	}
	mistakes.add(check.checkShards())
	sources, absent, err := prioritize(plan.Sources, chosen.order)
	mistakes.add(err)
	plan.Sources = sources
	plan.Warnings = slices.Concat(kubelet.Warnings, chosen.warnings, absent, check.idleScope(), plan.unwritable())
	if err := mistakes.error(); err != nil {
		return nil, err
	}
	for i := range plan.Sources {
		if plan.Sources[i].Fingerprint, err = fingerprint(plan.Sources[i]); err != nil {
			return nil, err
		}
	}
	return plan, nil
}

// unwritable warns of writes that will be refused.
func (p *Plan) unwritable() []string {
	// One node may be podconfigd's own.
	if (len(p.Nodes) > 1 || slices.Contains(p.Nodes, AllNodes)) && slices.ContainsFunc(p.Sources, func(s Source) bool { return s.Kind == Applied }) {
		return []string{"applied: this podconfigd serves other nodes, so it refuses writes: apply manifests on the node itself"}
	}
	return nil
}

// mistakes are in the order in which they are found, with problems, which alone aren't mistakes.
type mistakes struct {
	list  []error
	wrong bool
}

func (m *mistakes) add(errs ...error) {
	for _, err := range errs {
		if err != nil {
			m.list, m.wrong = append(m.list, err), true
		}
	}
}

func (m *mistakes) addProblem(err error) {
	if err != nil {
		m.list = append(m.list, err)
	}
}

func (m *mistakes) error() error {
	if !m.wrong {
		return nil
	}
	return errors.Join(document.Few(m.list)...)
}

// SameSettings reports whether two Sources are equal except for the content of the files that they name.
func (s Source) SameSettings(other Source) bool {
	for _, of := range []*Source{&s, &other} {
		of.Location = ""
		if of.API != nil {
			api := *of.API
			api.Data, api.Digest = nil, ""
			of.API = &api
		}
	}
	a, errA := fingerprint(s)
	b, errB := fingerprint(other)
	return errA == nil && errB == nil && a == b
}

func fingerprint(s Source) (string, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("hash source %s: %w", s.Name, err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
