package credential

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/objects"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Secrets are the Secrets that pods refer to: objects.Objects.
type Secrets interface {
	Secret(source, namespace, name string) (*v1.Secret, error)
}

// Config has the sources of credentials.
type Config struct {
	// Secrets are the pods' pull secrets. Nil: there are none.
	Secrets Secrets
	// Files are the node's docker config files: DefaultFiles. One named .dockercfg is of the older form; one that
	// doesn't exist is no error.
	Files []string
	// PluginConfig is a CredentialProviderConfig, or a directory of them; PluginDir is the directory of the plugins.
	// Empty: there are no plugins.
	PluginConfig, PluginDir string
	// NoTokens refuses plugins that receive service account tokens.
	NoTokens bool
	// Accounts are for plugins that receive service account tokens. Nil: there is no API server.
	Accounts Accounts
	// Events gets the pull secrets that are no credentials. Nil discards.
	Events *events.Recorder
	// Metrics registers the metrics of plugins. Nil: they aren't served.
	Metrics prometheus.Registerer
	// Clock is for the cache of the plugins' answers. Nil means the real one.
	Clock clock.PassiveClock
	// Logger gets the failures of files and plugins. Nil discards.
	Logger *slog.Logger
}

// Keyring finds credentials. It is safe for concurrent use.
type Keyring struct {
	cfg     Config
	plugins []*plugin
}

// New returns a Keyring, or the errors of the plugins' configuration.
func New(cfg Config) (*Keyring, error) {
	if cfg.Secrets == nil {
		cfg.Secrets = noSecrets{}
	}
	if cfg.Accounts == nil {
		cfg.Accounts = noAccounts{}
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	k := &Keyring{cfg: cfg}
	if cfg.PluginConfig == "" {
		return k, nil
	}
	providers, hash, err := readProviders(cfg.PluginConfig, cfg.NoTokens)
	if err != nil {
		return nil, fmt.Errorf("read the credential providers: %w", err)
	}
	measured := newMetrics(cfg.Metrics)
	for _, provider := range providers {
		p, err := newPlugin(provider, cfg, measured)
		if err != nil {
			return nil, fmt.Errorf("read the credential providers: %w", err)
		}
		k.plugins = append(k.plugins, p)
	}
	measured.config.WithLabelValues(hash).Set(1)
	return k, nil
}

// Lookup returns the credentials for a repository ("docker.io/library/busybox"), in the order in which to try them:
// those of the pod's pull secrets, the node's, the plugins'. It waits for plugins, and ends early with ctx. A login may
// occur several times, with different origins.
func (k *Keyring) Lookup(ctx context.Context, pod *v1.Pod, repository string) []imageaccess.Login {
	return slices.Concat(
		choose(k.podLogins(pod, k.report), repository), choose(k.nodeLogins(), repository),
		choose(k.pluginLogins(ctx, pod, repository), repository),
	)
}

// Secrets returns the credentials for a repository in the pod's pull secrets. It records no events.
func (k *Keyring) Secrets(pod *v1.Pod, repository string) []imageaccess.Login {
	return choose(k.podLogins(pod, func(*v1.Pod, string) {}), repository)
}

// Version returns a value that changes with the pod's pull secrets. It doesn't show them, and is empty if the pod has
// none.
func (k *Keyring) Version(pod *v1.Pod) string {
	if len(pod.Spec.ImagePullSecrets) == 0 {
		return ""
	}
	hash := sha256.New()
	for _, ref := range pod.Spec.ImagePullSecrets {
		secret, err := k.secret(pod, ref.Name)
		fmt.Fprintf(hash, "%q %t\n", ref.Name, err == nil)
		if err != nil {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
			fmt.Fprintf(hash, "%q %q\n", key, secret.Data[key])
		}
	}
	return fmt.Sprintf("%x", hash.Sum(nil))
}

func (k *Keyring) secret(pod *v1.Pod, name string) (*v1.Secret, error) {
	return k.cfg.Secrets.Secret(podmeta.Source(pod), pod.Namespace, name)
}

// coordinates returns the coordinates of a pull secret in the records of pulls. Only an API server's object has a UID.
func coordinates(pod *v1.Pod, name string, secret *v1.Secret) *imageaccess.Secret {
	c := &imageaccess.Secret{UID: string(secret.UID), Namespace: pod.Namespace, Name: name}
	if !podmeta.FromAPI(pod) || c.UID == "" {
		c.UID = imageaccess.SourceUID(fmt.Sprintf("%x", sha256.Sum256([]byte(podmeta.Source(pod)))))
	}
	return c
}

// Lacking returns the names of the pod's pull secrets that can't be retrieved. awaited is set if podconfigd may still send
// one of them.
func (k *Keyring) Lacking(pod *v1.Pod) (names []string, awaited bool) {
	for _, ref := range pod.Spec.ImagePullSecrets {
		if ref.Name == "" {
			continue
		}
		if _, err := k.secret(pod, ref.Name); err != nil {
			names, awaited = append(names, ref.Name), awaited || errors.Is(err, objects.ErrUnknown)
		}
	}
	return names, awaited
}

// podLogins returns the logins in the pod's pull secrets. report is called with what is wrong with them.
func (k *Keyring) podLogins(pod *v1.Pod, report func(pod *v1.Pod, message string)) []login {
	var out []login
	for _, ref := range pod.Spec.ImagePullSecrets {
		if ref.Name == "" {
			continue
		}
		secret, err := k.secret(pod, ref.Name)
		if err != nil {
			continue // Lacking returns it.
		}
		found, err := parseSecret(secret)
		if err != nil {
			report(pod, fmt.Sprintf("Image pull secret %q can't be used: %v", ref.Name, err))
			continue
		}
		from := coordinates(pod, ref.Name, secret)
		for _, l := range found {
			l.secret = from
			out = append(out, l)
		}
	}
	return out
}

func (k *Keyring) report(pod *v1.Pod, message string) {
	k.cfg.Events.Record(pod, "", events.Warning, events.FailedPullSecret, message)
}

func (k *Keyring) nodeLogins() []login {
	var out []login
	for _, file := range k.cfg.Files {
		found, err := readFile(file)
		if err != nil {
			k.cfg.Logger.Warn("the node's docker config can't be used", "file", file, "error", err)
			continue
		}
		out = append(out, found...)
	}
	return out
}

// pluginLogins runs all plugins that match the repository, one after the other.
func (k *Keyring) pluginLogins(ctx context.Context, pod *v1.Pod, repository string) []login {
	var out []login
	for _, p := range k.plugins {
		if !p.matches(repository) {
			continue
		}
		found, err := p.logins(ctx, pod, repository)
		if err != nil && ctx.Err() == nil {
			k.cfg.Logger.Warn("credential provider has failed", "provider", p.name, "repository", repository,
				"pod", podmeta.LogName(pod), "uid", pod.UID, "error", err)
		}
		out = append(out, found...)
	}
	return out
}

// noSecrets is for a node without a source of secrets.
type noSecrets struct{}

func (noSecrets) Secret(_, namespace, name string) (*v1.Secret, error) {
	return nil, fmt.Errorf("secret %s/%s: no source of secrets is configured", namespace, name)
}
