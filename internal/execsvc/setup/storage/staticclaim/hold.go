package staticclaim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podstream/podstream/internal/durable"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/directory"
)

// ErrHeld is the error of a claim that is held already.
var ErrHeld = errors.New("another request is changing it")

// Hold keeps the claim from being bound, and so pods from a directory that is removed or replaced. why continues a sentence
// that begins with the volume. release ends it.
func (b *Bindings) Hold(c directory.Claim, why string) (release func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if had := b.held[c]; had != "" {
		return nil, fmt.Errorf("the volume of claim %s %s: %w", c, had, ErrHeld)
	}
	b.held[c] = why
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.held, c)
	}, nil
}

// Unmake records that the directory of a claim may be missing from now on: if it is, the next pod gets a new one. The claim
// stays bound to it. undo records that the directory wasn't removed. The claim is held.
func (b *Bindings) Unmake(c directory.Claim) (undo func() error, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bound, ok := b.bound[c]
	if !ok || bound.Volume != "" || !bound.Made {
		return func() error { return nil }, nil
	}
	bound.Made = false
	if err := b.store(bound); err != nil {
		return nil, err
	}
	return func() error { return b.made(c) }, nil
}

// HasMade reports whether the claim is bound to a directory of the node that was created: if that is missing, the file system that
// has it isn't mounted.
func (b *Bindings) HasMade(c directory.Claim) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	bound, ok := b.bound[c]
	return ok && bound.Volume == "" && bound.Made
}

// Forget removes the binding of a claim to a directory of the node, if it has one: the directory was removed, and a later claim
// of that name can be bound to another volume. The claim is held.
func (b *Bindings) Forget(c directory.Claim) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	bound, ok := b.bound[c]
	if !ok || bound.Volume != "" {
		return nil
	}
	err := os.Remove(filepath.Join(b.dir, fileName(c)))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = durable.SyncDir(b.dir)
	}
	if err != nil {
		return fmt.Errorf("remove the binding of claim %s: %w", c, err)
	}
	delete(b.bound, c)
	return nil
}
