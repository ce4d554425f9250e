package clusteruid

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

const (
	// Namespace is the namespace of the object whose UID is the cluster's.
	Namespace = metav1.NamespaceDefault
	// Service is the name of that object, a Service.
	Service = "kubernetes"
	// Timeout is how long Get waits for an answer.
	Timeout = 10 * time.Second
	// maxAnswer is the largest answer in bytes, and maxUID the longest UID, that Get accepts.
	maxAnswer, maxUID = 1 << 20, 128
)

// Errors of Get.
var (
	// ErrUnknown means that the API server was reached and doesn't show which cluster it is of: the Service doesn't
	// exist (yet), or the client may not read it.
	ErrUnknown = errors.New("the cluster's UID is unknown")
	// ErrInvalid means that what the API server answers isn't the Service with a UID.
	ErrInvalid = errors.New("the answer isn't Service " + Namespace + "/" + Service + " with a UID")
)

// Get returns the UID of the cluster that the client's API server is of. It makes one request, which is never answered
// from a server's cache, and waits for at most Timeout. Errors are ErrUnknown, wrapped with the server's own, ErrInvalid,
// or those of the request.
func Get(ctx context.Context, client rest.Interface) (types.UID, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, Timeout, fmt.Errorf("it hasn't answered for %v", Timeout))
	defer cancel()
	body, err := client.Get().AbsPath("/api/v1/namespaces", Namespace, "services", Service).
		SetHeader("Accept", "application/json").MaxRetries(0).Stream(ctx)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return "", fmt.Errorf("%w: %w", ErrUnknown, err)
	case err != nil:
		return "", failure(ctx, err)
	}
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err != nil {
		return "", failure(ctx, err)
	}
	if len(data) > maxAnswer {
		return "", fmt.Errorf("%w: it has more than %d bytes", ErrInvalid, maxAnswer)
	}
	return parse(data)
}

// parse returns the UID of a Service in JSON.
func parse(data []byte) (types.UID, error) {
	var answer metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &answer); err != nil {
		return "", fmt.Errorf("%w: it isn't an object in JSON", ErrInvalid)
	}
	if answer.Kind != "Service" || answer.Namespace != Namespace || answer.Name != Service {
		return "", ErrInvalid
	}
	if err := Check(answer.UID); err != nil {
		return "", err
	}
	return answer.UID, nil
}

// Check returns ErrInvalid, wrapped, unless uid can be the UID of an object: 1 to 128 printable characters of ASCII
// without space, quotes and backslash. Kubernetes makes UUIDs.
func Check(uid types.UID) error {
	if uid == "" || len(uid) > maxUID {
		return fmt.Errorf("%w: the UID has %d bytes, want 1 to %d", ErrInvalid, len(uid), maxUID)
	}
	for _, c := range []byte(uid) {
		if c <= ' ' || c > '~' || c == '"' || c == '\'' || c == '\\' {
			return fmt.Errorf("%w: the UID has an unexpected character", ErrInvalid)
		}
	}
	return nil
}

// failure returns the cause if the time is over.
func failure(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	return err
}
