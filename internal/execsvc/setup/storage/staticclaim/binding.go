package staticclaim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/google/renameio/v2"

	"github.com/podstream/podstream/internal/durable"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/directory"
	"github.com/podstream/podstream/internal/openfile"
)

const (
	// version is that of the format of a binding. A file of another version counts as damaged.
	version = 1
	suffix  = ".json"
	// maxBindings bounds the bindings of the node, maxOfNamespace those of one namespace, and maxSize the bytes of one. A binding outlives
	// its claim: the claims of one namespace, with ever new names, must not keep the pods of the others from starting.
	maxBindings    = 4096
	maxOfNamespace = maxBindings / 8
	maxSize        = 64 << 10
)

// Binding is what a claim is bound to.
type Binding struct {
	Version int             `json:"version"`
	Claim   directory.Claim `json:"claim"`
	// Volume is the PersistentVolume, with its driver and handle. All are empty for a directory.
	Volume string `json:"volume,omitempty"`
	Driver string `json:"driver,omitempty"`
	Handle string `json:"handle,omitempty"`
	// Made is set once the directory was created.
	Made bool `json:"made,omitempty"`
}

// String describes what the claim is bound to.
func (b Binding) String() string {
	if b.Volume == "" {
		return "a directory of the node"
	}
	return fmt.Sprintf("PersistentVolume %s (%s of driver %s)", b.Volume, b.Handle, b.Driver)
}

// same reports whether both bind their claim to one volume.
func (b Binding) same(o Binding) bool {
	return b.Volume == o.Volume && b.Driver == o.Driver && b.Handle == o.Handle
}

// Bindings are the bindings on disk, and in memory. They are safe for concurrent use.
type Bindings struct {
	dir string

	mu    sync.Mutex
	bound map[directory.Claim]Binding
	// held are claims that can't be bound now, by the reason.
	held map[directory.Claim]string
}

// Open reads the bindings in a directory of podexecd's own, which is created if it is missing. A file that can't be used is
// an error: without it a claim could be bound to another volume.
func Open(dir string) (*Bindings, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the directory of claims' bindings: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the bindings of claims: %w", err)
	}
	b := &Bindings{dir: dir, bound: map[directory.Claim]Binding{}, held: map[directory.Claim]string{}}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), suffix) || strings.HasPrefix(e.Name(), ".") {
			continue // renameio's draft.
		}
		found, err := read(dir, e.Name())
		if err != nil {
			return nil, fmt.Errorf("read the binding of a claim in %s; restore the file, or remove it and bind the claim again: %w",
				filepath.Join(dir, e.Name()), err)
		}
		b.bound[found.Claim] = found
	}
	return b, nil
}

func read(dir, name string) (Binding, error) {
	f, err := openfile.OpenBeneath(dir, name)
	if err != nil {
		return Binding{}, err
	}
	defer f.Close()
	data, err := openfile.ReadAll(context.Background(), f, maxSize)
	if err != nil {
		return Binding{}, err
	}
	var b Binding
	decoder := json.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&b); err != nil {
		return Binding{}, fmt.Errorf("read as JSON: %w", err)
	}
	switch {
	case b.Version != version:
		return Binding{}, fmt.Errorf("its version is %d, not %d", b.Version, version)
	case fileName(b.Claim) != name:
		return Binding{}, fmt.Errorf("its name isn't that of claim %s", b.Claim)
	}
	return b, b.Claim.Check()
}

// fileName returns the name of a claim's file. The claim's own name may be as long as a file's.
func fileName(c directory.Claim) string {
	sum := sha256.Sum256([]byte(c.String()))
	return hex.EncodeToString(sum[:]) + suffix
}

// bind returns the claim's binding, and stores it first if the claim has none.
func (b *Bindings) bind(wanted Binding) (Binding, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if why := b.held[wanted.Claim]; why != "" {
		return Binding{}, fmt.Errorf("the volume of claim %s %s; the pod waits", wanted.Claim, why)
	}
	if bound, ok := b.bound[wanted.Claim]; ok {
		if !bound.same(wanted) {
			return Binding{}, fmt.Errorf("claim %s is bound to %s, and its manifest means %s: a binding doesn't change by itself; "+
				"to end it, remove %s while podexecd is stopped", wanted.Claim, bound, wanted, filepath.Join(b.dir, fileName(wanted.Claim)))
		}
		return bound, nil
	}
	ofNamespace := 0
	for _, other := range b.bound {
		if other.Claim.Namespace == wanted.Claim.Namespace {
			ofNamespace++
		}
		if wanted.Volume != "" && (other.Volume == wanted.Volume || other.Driver == wanted.Driver && other.Handle == wanted.Handle) {
			return Binding{}, fmt.Errorf("PersistentVolume %s is bound to claim %s, and not to %s", wanted.Volume, other.Claim, wanted.Claim)
		}
	}
	switch {
	case ofNamespace >= maxOfNamespace:
		return Binding{}, fmt.Errorf("%d claims of namespace %s are bound on this node, and no more of them can be; %s",
			ofNamespace, wanted.Claim.Namespace, b.ending())
	case len(b.bound) >= maxBindings:
		return Binding{}, fmt.Errorf("%d claims are bound on this node, and no more can be; %s", len(b.bound), b.ending())
	}
	return wanted, b.store(wanted)
}

// ending says how an operator ends bindings.
func (b *Bindings) ending() string {
	return "remove volumes that no pod needs, with their data, by podctl volumes rm; a binding to a PersistentVolume ends " +
		"if its file in " + b.dir + " is removed while podexecd is stopped"
}

// made records that the claim's directory was created.
func (b *Bindings) made(c directory.Claim) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	bound, ok := b.bound[c]
	if !ok {
		return fmt.Errorf("claim %s isn't bound any more", c)
	}
	bound.Made = true
	return b.store(bound)
}

// store writes a binding. mu is held: the directory is the agent's own.
func (b *Bindings) store(binding Binding) error {
	binding.Version = version
	data, err := json.Marshal(binding)
	if err == nil {
		err = renameio.WriteFile(filepath.Join(b.dir, fileName(binding.Claim)), data, 0o600, renameio.WithTempDir(b.dir))
	}
	if err == nil {
		err = durable.SyncDir(b.dir)
	}
	if err != nil {
		return fmt.Errorf("store the binding of claim %s: %w", binding.Claim, err)
	}
	b.bound[binding.Claim] = binding
	return nil
}
