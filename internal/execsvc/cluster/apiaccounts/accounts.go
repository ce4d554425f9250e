package apiaccounts

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// timeout is how long a request may take before the API server counts as away.
const timeout = 10 * time.Second

// maxAccounts is how many accounts are kept: more than pods on a node.
const maxAccounts = 1000

// Config configures Accounts.
type Config struct {
	// Get requests an account from the API server.
	Get func(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error)
	// Logger receives a line for each account that is used while the API server is away. Nil discards them.
	Logger *slog.Logger
}

// Accounts are the service accounts of the node's pods. They are safe for concurrent use.
type Accounts struct {
	cfg Config

	mu   sync.Mutex
	last map[types.NamespacedName]*v1.ServiceAccount
}

// New returns Accounts that have no account yet.
func New(cfg Config) *Accounts {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Accounts{cfg: cfg, last: map[types.NamespacedName]*v1.ServiceAccount{}}
}

// Get returns a service account, which must not be changed. If the API server says that it may not be read or doesn't
// exist, that is an error, and the account is forgotten.
func (a *Accounts) Get(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	got, err := a.cfg.Get(limited, namespace, name)
	a.mu.Lock()
	defer a.mu.Unlock()
	last := a.last[key]
	switch {
	case err == nil && (got.Namespace != namespace || got.Name != name || got.UID == ""):
		return nil, fmt.Errorf("service account %s: the API server's response has another one", key)
	case err == nil:
		if len(a.last) >= maxAccounts {
			clear(a.last)
		}
		// An account lists its secrets and its managers; neither is needed.
		last = &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: got.UID, Annotations: got.Annotations}}
		a.last[key] = last
		return last, nil
	case refused(err):
		delete(a.last, key)
		return nil, err
	case last == nil || ctx.Err() != nil:
		return nil, err
	}
	a.cfg.Logger.Warn("can't read a service account; its last version is used", "account", key.String(), "error", err)
	return last, nil
}

// refused reports whether the error is an answer about the account, and not about the API server's state.
func refused(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err)
}
