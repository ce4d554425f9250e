package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/podstream/podstream/internal/sources/fault"
)

// MaxManifest is the maximum size of a manifest or an index, in bytes.
const MaxManifest = maxAnswer

const (
	errAlgorithm fault.Error = "the registry answers with a digest that isn't one of SHA-256"
	errDigest    fault.Error = "the registry sends other bytes than those of the digest"
	errSize      fault.Error = "the registry sends another number of bytes than the manifest says"
	errIndex     fault.Error = "the registry's list of signatures can't be read"
)

// Reading are the requests of one reading.
type Reading struct {
	client *Client
	// ctx lasts as long as the reading.
	ctx     context.Context //nolint:containedctx // Package remote's requests take it as an option.
	cancel  context.CancelFunc
	secrets fault.Secrets
}

// Close ends the reading and its connections.
func (r *Reading) Close() { r.cancel() }

// options are those of each request, once the registry is known. ctx may limit the responses.
func (r *Reading) options(ctx context.Context) ([]remote.Option, error) {
	if err := r.client.connect(r.ctx); err != nil {
		return nil, r.explain(err)
	}
	return []remote.Option{remote.WithTransport(r.client.transport), remote.WithContext(ctx)}, nil
}

// failed words an error. The registry is asked again how it authenticates, unless it has answered.
func (r *Reading) failed(err error) error {
	var status *transport.Error
	if !errors.As(err, &status) || status.StatusCode == http.StatusUnauthorized || status.StatusCode == http.StatusForbidden {
		r.client.transport = nil
	}
	return r.explain(err)
}

// Resolve returns the digest of the reference. What has that digest may be missing, or something else.
func (r *Reading) Resolve() (digest string, err error) {
	isFormer := r.client.transport != nil
	digest, err = r.resolve()
	if isFormer && err != nil && r.client.transport == nil && r.ctx.Err() == nil {
		// The registry may authenticate in another way by now.
		return r.resolve()
	}
	return digest, err
}

func (r *Reading) resolve() (digest string, err error) {
	options, err := r.options(r.ctx)
	if err != nil {
		return "", err
	}
	ref := r.client.cfg.Reference
	found, err := remote.Head(ref, options...)
	if err == nil {
		return checkDigest(found.Digest.String())
	}
	if !isUnsupported(err) {
		return "", r.failed(err)
	}
	// Some registries don't answer HEAD, or without a digest.
	got, err := remote.Get(ref, options...)
	if err != nil {
		return "", r.failed(err)
	}
	return digestOf(got.Manifest), nil
}

// isUnsupported reports whether a HEAD failed for another reason than a refusal or the connection.
func isUnsupported(err error) bool {
	var status *transport.Error
	if errors.As(err, &status) {
		return status.StatusCode == http.StatusMethodNotAllowed || status.StatusCode == http.StatusNotImplemented
	}
	return strings.Contains(err.Error(), "response did not include")
}

func checkDigest(digest string) (string, error) {
	if !strings.HasPrefix(digest, "sha256:") {
		return "", errAlgorithm
	}
	return digest, nil
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Manifest returns the manifest, or the index, with a digest.
func (r *Reading) Manifest(digest string) ([]byte, error) {
	if _, err := checkDigest(digest); err != nil {
		return nil, err
	}
	data, err := r.get(r.client.cfg.Reference.Context().Digest(digest))
	if err != nil {
		return nil, err
	}
	if digestOf(data) != digest {
		return nil, errDigest
	}
	return data, nil
}

// Tagged returns the manifest that a tag of the repository names. Nothing proves that it is the right one.
func (r *Reading) Tagged(tag string) ([]byte, error) {
	return r.get(r.client.cfg.Reference.Context().Tag(tag))
}

func (r *Reading) get(ref name.Reference) ([]byte, error) {
	options, err := r.options(r.ctx)
	if err != nil {
		return nil, err
	}
	got, err := remote.Get(ref, options...)
	if err != nil && strings.Contains(err.Error(), "does not match requested digest") {
		return nil, errDigest
	}
	if err != nil {
		return nil, r.failed(err)
	}
	return got.Manifest, nil
}

// Blob returns the blob with a digest and a size.
func (r *Reading) Blob(digest string, size int64) ([]byte, error) {
	if _, err := checkDigest(digest); err != nil {
		return nil, err
	}
	options, err := r.options(withLimit(r.ctx, size))
	if err != nil {
		return nil, err
	}
	layer, err := remote.Layer(r.client.cfg.Reference.Context().Digest(digest), options...)
	if err != nil {
		return nil, r.failed(err)
	}
	body, err := layer.Compressed()
	if err != nil {
		return nil, r.failed(err)
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	switch {
	case err != nil && strings.Contains(err.Error(), "error verifying"):
		return nil, errDigest
	case err != nil:
		return nil, r.failed(err)
	case int64(len(data)) != size:
		return nil, errSize
	case digestOf(data) != digest:
		return nil, errDigest
	}
	return data, nil
}

// Referrers returns the manifests that refer to a digest, by the registry's list or else by that of the tag which
// stands for it. Nothing proves that they do.
func (r *Reading) Referrers(digest string) ([]v1.Descriptor, error) {
	if _, err := checkDigest(digest); err != nil {
		return nil, err
	}
	options, err := r.options(r.ctx)
	if err != nil {
		return nil, err
	}
	index, err := remote.Referrers(r.client.cfg.Reference.Context().Digest(digest), options...)
	if err != nil {
		return nil, r.failed(err)
	}
	list, err := index.IndexManifest()
	if err != nil || list == nil {
		return nil, errIndex
	}
	return list.Manifests, nil
}
