package apivolumes

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// secretTimeout is the time limit of Secret: a call of a driver waits for it.
const secretTimeout = 10 * time.Second

// Secret returns the values of a Secret to which a PersistentVolume refers, for one call of a CSI driver. podconfigd doesn't
// stream it: a pod's manifest has only the claim. Each call reads the values from the API server, and the package keeps
// nothing. No error has a value. The caller must neither store nor log them.
func (v *Volumes) Secret(ctx context.Context, namespace, name string) (map[string]string, error) {
	values, err := v.readSecret(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil {
		return nil, fmt.Errorf("failed to find the secret %s in the namespace %s with error: %w", name, namespace, err)
	}
	return values, nil
}

func (v *Volumes) readSecret(ctx context.Context, name types.NamespacedName) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	select {
	case v.slots <- struct{}{}:
		defer func() { <-v.slots }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for other reads: %w", ctx.Err())
	}
	secret, err := v.cfg.Client.Secret(ctx, name.Namespace, name.Name)
	if err != nil {
		return nil, withoutContent(err)
	}
	if _, err := sound(secret, nil, name, func(*v1.Secret) {}); err != nil {
		return nil, err
	}
	values, size := make(map[string]string, len(secret.Data)), 0
	for key, value := range secret.Data {
		switch size += len(key) + len(value); {
		case size > v1.MaxSecretSize:
			return nil, fmt.Errorf("it has more than %d bytes", v1.MaxSecretSize)
		case !utf8.Valid(value) || !utf8.ValidString(key):
			return nil, errors.New("a value isn't UTF-8, as a driver's call needs it")
		}
		values[key] = string(value)
	}
	return values, nil
}

// withoutContent returns the error of a request. The error of a response that can't be decoded may have a part of it, and is
// replaced.
func withoutContent(err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) || errors.As(err, new(*url.Error)) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	return errors.New("the API server's response can't be read")
}
