package sourceconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/podstream/podstream/internal/kubeletconfig"
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

// AllNodes, alone in a list of nodes, means every one.
const AllNodes = "*"

// Plan is which sources there are. Two Plans with the same Fingerprints in the same order mean the same.
type Plan struct {
	// Sources are in order of priority; their names are unique. There may be none.
	Sources []Source
	// Nodes are those whose pods API server and relays are asked for. Nil: the own one only.
	Nodes []string
	// Strict refuses manifests with unknown fields.
	Strict bool
	// Ignored are fields of the kubelet's configuration that are set and that Podstream doesn't heed.
	Ignored []string
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
	// Fingerprint is a hash of the name and of all that the source is made with.
	Fingerprint string `json:"-"`

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
	// Digest is a hash of the file, so that a changed one makes another Fingerprint.
	Digest string
	// Nodes are the Plan's.
	Nodes []string
}

// Input is all that a Plan is made of.
type Input struct {
	// Files are those of --config and --config-dir.
	Files []kubeletconfig.File
	Flags *Flags
	// ReadFile reads the files that the configuration names. Nil: os.ReadFile.
	ReadFile func(path string) ([]byte, error)
}

// Make makes the Plan. Its error has one line for each mistake, which begins with FILE:LINE or the flag.
func Make(in Input) (*Plan, error) {
	if in.ReadFile == nil {
		in.ReadFile = os.ReadFile
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
	plan := &Plan{Strict: chosen.strict, Ignored: kubelet.Ignored()}
	var mistakes []error
	if plan.Nodes, err = checkNodes(chosen.nodes); err != nil {
		mistakes = append(mistakes, err)
	}
	check := checker{readFile: in.ReadFile, plan: plan, every: chosen.every}
	seen := map[string]bool{}
	for _, d := range chosen.drafts {
		if seen[d.name()] {
			mistakes = append(mistakes, d.at("name", fmt.Sprintf("there is a source %s already; give each a name of its own", d.name())))
			continue
		}
		seen[d.name()] = true
		src, problems := check.source(d)
		mistakes = append(mistakes, problems...)
		plan.Sources = append(plan.Sources, src)
	}
	var absent []string
	if plan.Sources, absent, err = prioritize(plan.Sources, chosen.order); err != nil {
		mistakes = append(mistakes, err)
	}
	plan.Warnings = slices.Concat(kubelet.Warnings, chosen.warnings, absent)
	if err := errors.Join(mistakes...); err != nil {
		return nil, err
	}
	for i := range plan.Sources {
		if plan.Sources[i].Fingerprint, err = fingerprint(plan.Sources[i]); err != nil {
			return nil, err
		}
	}
	return plan, nil
}

func fingerprint(s Source) (string, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("hash source %s: %w", s.Name, err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
