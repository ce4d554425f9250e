package podconfigd

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/podstream/podstream/internal/kubeletconfig"
	"github.com/podstream/podstream/internal/sourceconfig"
)

// digest identifies a content.
type digest [sha256.Size]byte

// reading is what was on the disk at one time: all inputs of a plan except the flags.
type reading struct {
	// files are those of --config and --config-dir, own is their digest. If they can't be read, err is the error, and
	// own is its digest.
	files []kubeletconfig.File
	err   error
	own   digest
	// named are the digests of the files that flags and configuration name, certificates and kubeconfigs; for one
	// that can't be read, that of the error.
	named map[string]digest
}

// reread reads the configuration files, and those that they named at the previous reading. Nil: there was none.
func (o *Options) reread(before *reading) *reading {
	r := &reading{named: map[string]digest{}}
	paths := o.config
	paths.Given = true
	r.files, r.err = kubeletconfig.Load(paths)
	hash := sha256.New()
	for _, f := range r.files {
		fmt.Fprintf(hash, "%q %d\n", f.Path, len(f.Data))
		hash.Write(f.Data)
	}
	if r.err != nil {
		fmt.Fprintf(hash, "error %v", r.err)
	}
	r.own = digest(hash.Sum(nil))
	if before != nil {
		for path := range before.named {
			_, _ = r.readNamed(path) // Only the recorded digest is needed.
		}
	}
	return r
}

// readNamed reads a file that the configuration names, and records its digest.
func (r *reading) readNamed(path string) ([]byte, error) {
	data, err := sourceconfig.ReadFile(path)
	if err != nil {
		r.named[path] = sha256.Sum256([]byte("error " + err.Error()))
	} else {
		r.named[path] = sha256.Sum256(append([]byte("data "), data...))
	}
	return data, err
}

// sum returns the digest of all that was read.
func (r *reading) sum() digest {
	hash := sha256.New()
	hash.Write(r.own[:])
	for _, path := range slices.Sorted(maps.Keys(r.named)) {
		of := r.named[path]
		fmt.Fprintf(hash, "%q", path)
		hash.Write(of[:])
	}
	return digest(hash.Sum(nil))
}

// makePlan makes the plan of a reading and the flags; from then on the files that it names are those of this plan. A
// plan without any source is refused: it would be ready without having read anything, and consumers would remove all
// their pods.
func (o *Options) makePlan(r *reading) (*sourceconfig.Plan, error) {
	if r.err != nil {
		return nil, r.err
	}
	r.named = map[string]digest{}
	plan, err := sourceconfig.Make(sourceconfig.Input{Files: r.files, Flags: &o.sources, ReadFile: r.readNamed})
	if err != nil {
		return nil, err
	}
	sources := o.mergeSources(plan)
	if len(sources) == 0 {
		return nil, errors.New("there is no source of pods: neither flags nor configuration name one")
	}
	seen := map[string]bool{}
	for _, s := range sources {
		if seen[s.Name] {
			return nil, fmt.Errorf("there are two sources of the name %s", s.Name)
		}
		seen[s.Name] = true
	}
	return plan, nil
}
