package oci

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/fault"
	"github.com/podstream/podstream/internal/sources/oci/archive"
	"github.com/podstream/podstream/internal/sources/oci/pin"
	"github.com/podstream/podstream/internal/sources/oci/registry"
	"github.com/podstream/podstream/internal/sources/oci/signature"
	"github.com/podstream/podstream/internal/sources/pace"
	"github.com/podstream/podstream/internal/sources/trust"
)

// poller is the state of one Run, used by one goroutine.
type poller struct {
	source *Source
	cfg    *Config
	ref    name.Reference
	log    *slog.Logger
	trust  *trust.Trust
	client *registry.Client
	// store is nil if nothing is stored.
	store *pin.Store

	// current is the accepted artifact, and evidence its signature. Nil: there is none. The artifact has its parts until
	// they are stored.
	current  *artifact
	evidence *signature.Evidence
	content  *content
	// unpacked is what the artifact has while it isn't stored.
	unpacked *archive.Content
	// ageKnown is set once the age of the accepted artifact, or of a newer one, is stored.
	ageKnown bool
	// bad is the digest of an artifact whose layers can't be used, and badWhy the reason: they aren't requested again.
	bad    string
	badWhy error
	// problem is the error that was logged. Empty: there is none.
	problem string
}

// poll makes one reading, and takes over what the reference has.
func (p *poller) poll(ctx context.Context) error {
	digest, err := p.read(ctx)
	if err != nil {
		at := Location(p.ref)
		if _, ok := p.ref.(name.Digest); !ok && digest != "" {
			at += "@" + digest
		}
		err = fmt.Errorf("artifact %s: %w", at, err)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil && fault.Problem(err) != p.problem:
		p.problem = fault.Problem(err)
		p.log.Warn("Artifact can't be used; the pods known stay", "error", err)
	case err == nil && p.problem != "":
		p.problem = ""
		p.log.Info("Artifact can be used again", "digest", digest)
	}
	return err
}

// read returns the digest of the reference, as far as it is known, and why it isn't used.
func (p *poller) read(ctx context.Context) (digest string, err error) {
	keys, err := p.cfg.keys()
	if err != nil {
		return "", err
	}
	config, err := p.trust.Load()
	if err != nil {
		return "", err
	}
	login, err := p.cfg.login(p.repository())
	if err != nil {
		return "", err
	}
	ctx, end := pace.Limit(ctx, p.cfg.Clock, p.cfg.Timeout)
	defer end()
	r := p.client.Open(ctx, login, config)
	defer r.Close()
	if digest, err = r.Resolve(); err != nil {
		return "", err
	}
	if p.current != nil && p.current.digest == digest {
		return digest, p.confirm(r, keys)
	}
	return digest, p.accept(r, keys, digest)
}

// repository is the one by which credentials are chosen, as the kubelet names it.
func (p *poller) repository() string {
	repository := p.ref.Context()
	if repository.RegistryStr() == name.DefaultRegistry {
		return "docker.io/" + repository.RepositoryStr()
	}
	return repository.Name()
}

// confirm checks that the accepted artifact is signed by a present key, as the key's file may have changed. Then it stores
// what couldn't be stored before.
func (p *poller) confirm(r *registry.Reading, keys *signature.Keys) error {
	p.source.refuse(older{})
	isChanged := false
	if of := p.signedArtifact(p.current); keys != nil && (p.evidence == nil || keys.Verify(*p.evidence, of) != nil) {
		evidence, err := findEvidence(r, keys, of)
		if err != nil {
			return err
		}
		p.log.Info("Artifact has a signature by the changed key", "digest", p.current.digest)
		p.evidence, isChanged = evidence, true
	}
	if err := p.rememberCurrent(); err != nil {
		return err
	}
	switch {
	case p.unpacked != nil:
		p.use(p.current, p.unpacked)
	case isChanged && p.store != nil:
		if err := p.store.SetPin(p.pinOf(p.current)); err != nil {
			p.log.Warn("The signature by the changed key can't be stored; after a restart the registry is asked for it", "error", err)
		}
	}
	return nil
}

// accept reads another artifact than the current one, and takes it over.
func (p *poller) accept(r *registry.Reading, keys *signature.Keys, digest string) error {
	a, err := readRoot(r, digest)
	if err != nil {
		return err
	}
	var evidence *signature.Evidence
	if keys != nil {
		if evidence, err = findEvidence(r, keys, p.signedArtifact(a)); err != nil {
			return err
		}
	}
	if err := p.checkAge(a); err != nil {
		return err
	}
	if p.bad == digest {
		return p.badWhy
	}
	if err := a.readLayers(r); err != nil {
		return err
	}
	unpacked, err := a.unpack()
	if err != nil {
		p.bad, p.badWhy = digest, err
		return err
	}
	if err := p.remember(a); err != nil {
		return err
	}
	p.evidence = evidence
	p.log.Info("Artifact is used", "digest", digest, "manifests", len(unpacked.Files), "signed", evidence != nil)
	p.use(a, unpacked)
	return nil
}

// signedArtifact is what has to be signed of an artifact.
func (p *poller) signedArtifact(a *artifact) signature.Artifact {
	return signature.Artifact{
		Digest: a.digest, Manifest: a.root, Repository: p.ref.Context(), Tag: tagOf(p.ref), AnyRepository: p.cfg.AnyRepository,
	}
}

// use stores an artifact and takes over its content. One that can't be stored is used anyway, with a finding.
func (p *poller) use(a *artifact, unpacked *archive.Content) {
	problem := ""
	p.unpacked = nil
	if p.store != nil && a.parts != nil {
		if err := p.store.Save(p.pinOf(a), a.parts); err != nil {
			problem = fmt.Sprintf("it can't be stored, so after a restart its ConfigMaps and Secrets are there only once the registry answers: %v", err)
			p.unpacked = unpacked
		}
	}
	if p.unpacked == nil {
		a.parts, a.layers = nil, nil
	}
	next := p.content.take(unpacked, problem)
	logFindings(p.log, p.content.origins, next.origins)
	p.content, p.current = next, a
	p.bad, p.badWhy = "", nil
}

// pinOf returns what is stored of an artifact beside its parts.
func (p *poller) pinOf(a *artifact) pin.Pin {
	return pin.Pin{Reference: p.ref.Name(), Digest: a.digest, Evidence: p.evidence, Time: p.cfg.Clock.Now()}
}

// restore returns the set of the stored artifact; false: there is none that can be used.
func (p *poller) restore() (manifest.Set, bool) {
	if p.store == nil {
		return manifest.Set{}, false
	}
	stored, err := p.store.Load()
	if err == nil && stored != nil {
		err = p.restorePin(stored)
	}
	switch {
	case err != nil:
		p.log.Warn("The stored artifact isn't used; the registry is asked", "error", err)
		return manifest.Set{}, false
	case stored == nil:
		return manifest.Set{}, false
	}
	p.log.Info("The stored artifact is used until the registry answers", "digest", stored.Digest)
	return manifest.Set{Source: p.cfg.Name, ReadTime: p.cfg.Clock.Now(), Heard: stored.Time, Origins: p.content.origins, Digest: stored.Digest}, true
}

func (p *poller) restorePin(stored *pin.Pin) error {
	if stored.Reference != p.ref.Name() {
		return fault.Newf("it is one of %s", fault.Secrets{}.Host(stored.Reference))
	}
	if digest, ok := p.ref.(name.Digest); ok && digest.DigestStr() != stored.Digest {
		return fault.Error("its digest is another one")
	}
	keys, err := p.cfg.keys()
	if err != nil {
		return err
	}
	from := storedParts{p.store}
	a, err := readRoot(from, stored.Digest)
	if err != nil {
		return err
	}
	if keys != nil {
		if stored.Evidence == nil {
			return errUnsigned
		}
		if err := keys.Verify(*stored.Evidence, p.signedArtifact(a)); err != nil {
			return err
		}
	}
	if err := a.readLayers(from); err != nil {
		return err
	}
	unpacked, err := a.unpack()
	if err != nil {
		return err
	}
	// It is stored already.
	a.parts = nil
	p.evidence = stored.Evidence
	p.use(a, unpacked)
	return nil
}

// storedParts are the parts of the stored artifact.
type storedParts struct{ store *pin.Store }

// Manifest is part of parts.
func (s storedParts) Manifest(digest string) ([]byte, error) { return s.store.Blob(digest) }

// Blob is part of parts.
func (s storedParts) Blob(digest string, _ int64) ([]byte, error) { return s.store.Blob(digest) }
