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

	"github.com/podstream/podstream/internal/kubeletconfig"
	"github.com/podstream/podstream/internal/kubeletconfig/document"
	"github.com/podstream/podstream/internal/sources/apiserver"
)

// Kind is what a source reads, and what its name begins with.
type Kind string

// The kinds, in their default order of priority.
const (
	File  Kind = "file"
	HTTP  Kind = "http"
	Relay Kind = "relay"
	API   Kind = "api"
)

var kinds = []Kind{File, HTTP, Relay, API}

// AllNodes means every node; it stands alone in a list of nodes.
const AllNodes = "*"

// Plan is which sources there are. Two Plans with the same Fingerprints in the same order mean the same.
type Plan struct {
	// Sources are in order of priority; their names are unique. There may be none.
	Sources []Source
	// Nodes are those whose pods API server and relays are asked for. Nil: the own one only.
	Nodes []string
	// Strict refuses manifests with unknown fields.
	Strict bool
	// Ignored are fields of the kubelet's configuration that are set and that Podstream doesn't heed; Podexecd are those that are
	// podexecd's to heed.
	Ignored, Podexecd []string
	// Warnings are what looks wrong in the files and is no mistake, with file and line.
	Warnings []string
}

// Source is one entry of a Plan. One of the pointers is set, as its Kind says.
type Source struct {
	// Name is the source's name: KIND or KIND:NAME.
	Name string
	Kind Kind
	// Location is where it reads, for people: without credentials.
	Location string
	// Fingerprint is a hash of the name and of all that the source is made with, but for the files that it reads again by itself.
	Fingerprint string `json:"-"`
	// Problem is why the source can't be made now: a file that it names is missing, or isn't what it should be. It is the source's
	// own: all others work. Nil: there is none.
	Problem error `json:"-"`

	File  *FileSettings
	HTTP  *HTTPSettings
	Relay *RelaySettings
	API   *APISettings
}

// FileSettings are those of a manifest path.
type FileSettings struct {
	// Path is absolute.
	Path           string
	CheckFrequency time.Duration
	Strict         bool
}

// TLSFiles are paths of PEM files, absolute or relative to the working directory. Each may be empty; CertFile and KeyFile are so
// together.
type TLSFiles struct {
	CAFile, CertFile, KeyFile string
}

// HTTPSettings are those of a URL.
type HTTPSettings struct {
	// URL may hold credentials.
	URL string
	// Headers may hold credentials. Their names are canonical.
	Headers http.Header
	TLSFiles
	CheckFrequency time.Duration
	Strict         bool
}

// RelaySettings are those of another podconfigd.
type RelaySettings struct {
	// Address is unix:///path or tcp://host:port.
	Address string
	TLSFiles
	// Nodes are the Plan's.
	Nodes []string
}

// APISettings are those of the API server.
type APISettings struct {
	// Kubeconfig is a file's path. Empty if InCluster is set.
	Kubeconfig string
	InCluster  bool
	// Data is what the file holds, and Digest a hash of it, so that a changed file makes another Fingerprint. Both are empty if the
	// Source has a Problem.
	Data   []byte `json:"-"`
	Digest string
	// Nodes are the Plan's.
	Nodes []string
	// ChangeDetection is how changes of ConfigMaps and Secrets are found.
	ChangeDetection apiserver.ChangeDetection
}

// Input is all that a Plan is made of.
type Input struct {
	// Files are those of --config and --config-dir.
	Files []kubeletconfig.File
	Flags *Flags
	// ReadFile reads the files that the configuration names. Nil: ReadFile of this package.
	ReadFile func(path string) ([]byte, error)
}

// maxFile is far more than any certificate, key, bundle of CAs or kubeconfig has.
const maxFile = 1 << 20

// ReadFile reads a file that the configuration names: a regular one, of 1 MiB at most.
func ReadFile(path string) ([]byte, error) { return kubeletconfig.ReadFile(path, maxFile) }

// maxSources is the most sources that a Plan may have.
const maxSources = 256

// Make makes the Plan. Its error has one line for each mistake, which begins with FILE:LINE or the flag. That a file can't be used
// which a source names is no mistake, but that Source's Problem; if there are mistakes too, they are told together.
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

// assemble puts flags, the kubelet's configuration and the documents together.
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
	check := checker{readFile: in.ReadFile, plan: plan, every: chosen.every}
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
	sources, absent, err := prioritize(plan.Sources, chosen.order)
	mistakes.add(err)
	plan.Sources = sources
	plan.Warnings = slices.Concat(kubelet.Warnings, chosen.warnings, absent)
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

// mistakes are in the order in which they are found, among problems, which alone are none.
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

// Problems are those of all sources, a line each. Nil: there are none.
func (p *Plan) Problems() error {
	var all []error
	for _, s := range p.Sources {
		all = append(all, s.Problem)
	}
	return errors.Join(all...)
}

// SameSettings tells whether two Sources are the same but for what is in the files that they name.
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
