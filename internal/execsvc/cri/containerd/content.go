package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	contentv1 "github.com/containerd/containerd/api/services/content/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// The bounds of what is read of the content store. A message from containerd has at most 4 MiB, which is gRPC's default.
const (
	// maxManifests is how many manifests of one repository a listing may have.
	maxManifests = 10_000
	// maxIngests is how many ingests are used of an answer.
	maxIngests = 10_000
)

// ErrTooLarge is returned for a blob or a listing that is larger than its bound.
var ErrTooLarge = errors.New("too large")

// Content is the content store of CRI's images: the blobs that a containerd has, and those that it receives now.
type Content struct {
	conn   *grpc.ClientConn
	client contentv1.ContentClient
}

// NewContent returns the content store of the containerd at the endpoint unix:///path, which is also that of CRI's image
// service. All methods return an error with codes.Unimplemented from another runtime.
func NewContent(endpoint string) (*Content, error) {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return &Content{conn, contentv1.NewContentClient(conn)}, nil
}

// Close closes the connection.
func (c *Content) Close() error { return c.conn.Close() }

func ofCRI(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, namespaceKey, criNamespace)
}

// ingestDigest matches the digest at the end of an ingest's reference: "layer-sha256:…", "config-sha256:…", and with an
// annotation of the image "layer-NAME@sha256:…".
var ingestDigest = regexp.MustCompile(`(?:^|[-@])(sha(?:256|384|512):[0-9a-f]{64,128})$`)

// Ingests returns the blobs that containerd receives now, with the bytes of each that have arrived, by digest.
func (c *Content) Ingests(ctx context.Context) (map[string]int64, error) {
	resp, err := c.client.ListStatuses(ofCRI(ctx), &contentv1.ListStatusesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list containerd's ingests: %w", err)
	}
	ingests := map[string]int64{}
	for _, s := range resp.GetStatuses() {
		if len(ingests) == maxIngests {
			break
		}
		if parts := ingestDigest.FindStringSubmatch(s.GetRef()); parts != nil {
			ingests[parts[1]] = max(ingests[parts[1]], s.GetOffset())
		}
	}
	return ingests, nil
}

// The labels of blobs. sourceLabel is followed by a registry's host name without its port; its value is the list of the
// repositories there that pulls have found the blob in.
const (
	sourceLabel = "containerd.io/distribution.source."
	childLabel  = "containerd.io/gc.ref.content."
)

// Manifests returns the digests of the manifests in the repository path of a registry that pulls have used at since or
// later: their labels were set then. A pull sets them before it requests the layers, also if the manifest was there before.
// containerd 1.7 doesn't report when. There, the manifest was made then, or has a layer that arrives. host has no port.
func (c *Content) Manifests(ctx context.Context, host, path string, since time.Time, arrived map[string]int64) ([]string, error) {
	label := sourceLabel + host
	var filters []string
	// The first child of a manifest is a config or a layer, or one of another type, as in artifacts. Those of an index are
	// manifests.
	for _, child := range []string{"config", "l.0", "0"} {
		filters = append(filters, "labels."+strconv.Quote(label)+",labels."+strconv.Quote(childLabel+child))
	}
	ctx, cancel := context.WithCancel(ofCRI(ctx)) // It ends the stream.
	defer cancel()
	stream, err := c.client.List(ctx, &contentv1.ListContentRequest{Filters: filters})
	if err != nil {
		return nil, fmt.Errorf("list containerd's content: %w", err)
	}
	var found []string
	for read := 0; ; {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list containerd's content: %w", err)
		}
		for _, info := range resp.GetInfo() {
			if read++; read > maxManifests {
				return nil, fmt.Errorf("list containerd's content: %w: more than %d manifests of %s", ErrTooLarge, maxManifests, host)
			}
			repositories := strings.Split(info.GetLabels()[label], ",")
			if slices.Contains(repositories, path) && usedSince(info, since, arrived) {
				found = append(found, info.GetDigest())
			}
		}
	}
}

func usedSince(manifest *contentv1.Info, since time.Time, arrived map[string]int64) bool {
	if at := manifest.GetUpdatedAt(); at != nil {
		return !at.AsTime().Before(since)
	}
	if at := manifest.GetCreatedAt(); at != nil && !at.AsTime().Before(since) {
		return true
	}
	for name, digest := range manifest.GetLabels() {
		if _, arrives := arrived[digest]; arrives && strings.HasPrefix(name, childLabel) {
			return true
		}
	}
	return false
}

// Has reports whether the store has all of a blob.
func (c *Content) Has(ctx context.Context, digest string) (bool, error) {
	_, err := c.client.Info(ofCRI(ctx), &contentv1.InfoRequest{Digest: digest})
	switch {
	case status.Code(err) == codes.NotFound:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for blob %s in containerd: %w", digest, err)
	}
	return true, nil
}

// Read returns a blob of at most limit bytes.
func (c *Content) Read(ctx context.Context, digest string, limit int) ([]byte, error) {
	ctx, cancel := context.WithCancel(ofCRI(ctx)) // It ends the stream.
	defer cancel()
	// One byte more than the limit shows that there are more.
	stream, err := c.client.Read(ctx, &contentv1.ReadContentRequest{Digest: digest, Size: int64(limit) + 1})
	if err != nil {
		return nil, fmt.Errorf("read blob %s of containerd: %w", digest, err)
	}
	var data []byte
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return data, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read blob %s of containerd: %w", digest, err)
		}
		if data = append(data, resp.GetData()...); len(data) > limit {
			return nil, fmt.Errorf("read blob %s of containerd: %w: more than %d bytes", digest, ErrTooLarge, limit)
		}
	}
}
