package differential

import (
	"embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

var podType = reflect.TypeFor[v1.Pod]()

//go:embed testdata/pods
var podFiles embed.FS

// base is a pod from which mutants are made.
type base struct {
	name string
	tree map[string]any
}

// basePods returns the pods of testdata/pods, by name.
func basePods() ([]base, error) {
	const dir = "testdata/pods"
	files, err := podFiles.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var bases []base
	for _, f := range files {
		text, err := podFiles.ReadFile(path.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		b := base{name: strings.TrimSuffix(f.Name(), ".yaml")}
		if err := yaml.Unmarshal(text, &b.tree); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		bases = append(bases, b)
	}
	return bases, nil
}

// Mutant is a base pod with a few values changed.
type Mutant struct {
	// Number and the Mutator's seed reproduce the mutant.
	Number uint64
	Base   string
	// Changes describe the changed fields.
	Changes []string
	Manifest
	// Tree is the content of the manifest.
	Tree map[string]any
}

// String returns the mutant for messages.
func (m *Mutant) String() string {
	return fmt.Sprintf("mutant %d, %s with\n\t%s\n%s", m.Number, m.Base, strings.Join(m.Changes, "\n\t"), m.Text)
}

// Mutator makes mutants of pods. The same seed and number make the same mutant.
type Mutator struct {
	seed   uint64
	bases  []base
	corpus *corpus
}

// NewMutator returns a mutator of the base pods.
func NewMutator(seed uint64) (*Mutator, error) {
	bases, err := basePods()
	if err != nil {
		return nil, err
	}
	return &Mutator{seed: seed, bases: bases, corpus: newCorpus(bases)}, nil
}

// Mutant returns the mutant of a number.
func (m *Mutator) Mutant(number uint64) (*Mutant, error) {
	r := rand.New(rand.NewPCG(m.seed, number))
	from := pick(r, m.bases)
	mutant := &Mutant{Number: number, Base: from.name, Tree: copied(from.tree).(map[string]any)}
	for range pick(r, []int{1, 1, 1, 2, 2, 3}) {
		mutant.Changes = append(mutant.Changes, m.mutate(r, mutant.Tree))
	}
	var err error
	mutant.Manifest, err = manifestOf(mutant.Tree)
	// No toleration is added to pods of a URL.
	if r.IntN(8) == 0 {
		mutant.Origin, mutant.URL = "https://config.example/pods", true
	}
	return mutant, err
}

func manifestOf(tree map[string]any) (Manifest, error) {
	text, err := json.Marshal(tree)
	return Manifest{Origin: "/etc/podstream/manifests/web.yaml", Node: "node1", Text: text}, err
}

// mutate changes one value, and returns a description of the change.
func (m *Mutator) mutate(r *rand.Rand, tree map[string]any) string {
	s := m.site(r, tree)
	where := pathText(s.path)
	how := "deleted"
	replaceAt(tree, s.path, func(value any) (any, bool) {
		switch r.IntN(10) {
		case 0, 1:
			return nil, false
		case 2:
			how = "empty"
			return empty(value), true
		case 3:
			how = "null"
			return nil, true
		case 4, 5:
			how = "replaced"
			return m.corpus.value(r, s.typ, s.field, 3), true
		case 6:
			if r.IntN(8) == 0 {
				how = "of another type"
				return pick(r, []any{"1", 1, true, []any{"a"}, map[string]any{"a": "b"}}), true
			}
		}
		value, how = m.corpus.spoiled(r, s)
		return value, true
	})
	return where + " " + how
}

// site picks a value. A pod has many values at deep levels, so each level has the same chance.
func (m *Mutator) site(r *rand.Rand, tree map[string]any) site {
	sites := sitesOf(tree, podType)
	if r.IntN(3) == 0 {
		deepest := r.IntN(4) + 1
		shallow := slices.DeleteFunc(slices.Clone(sites), func(s site) bool { return len(s.path) > deepest })
		if len(shallow) > 0 {
			return pick(r, shallow)
		}
	}
	if len(sites) == 0 {
		return site{path: []any{"spec"}, typ: reflect.TypeFor[v1.PodSpec](), owner: podType, field: "spec"}
	}
	return pick(r, sites)
}
