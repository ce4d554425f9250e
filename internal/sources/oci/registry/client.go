package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/sources/fault"
)

// Config configures a Client.
type Config struct {
	// Reference is the tag, or the digest.
	Reference name.Reference
	// Insecure allows HTTP at the registry and TokenHost. Of each of them that is on loopback it is always allowed.
	Insecure bool
	// TokenHost is another host that may have the credentials, because the registry's tokens are from there: a name,
	// perhaps with a port. Empty: none.
	TokenHost string
	// Timeout is how long a reading may take, for the text of errors: the caller limits it by its context.
	Timeout time.Duration
	// Clock is for Retry-After. Nil: the system's clock.
	Clock clock.PassiveClock
	// Proxy returns the proxy of a request. Nil: http.ProxyFromEnvironment.
	Proxy func(*http.Request) (*url.URL, error)
}

// Login is a name and a password. The zero value is none.
type Login struct{ Username, Password string }

// Client reads one repository. Make it with New. It isn't safe for concurrent use.
type Client struct {
	cfg   Config
	guard *guard
	// transport has the token of the registry, which login gave. Nil: the registry has to be asked how it
	// authenticates.
	transport http.RoundTripper
	login     Login
}

// New returns a Client. It sends nothing.
func New(cfg Config) *Client {
	c := &Client{cfg: cfg}
	registry := cfg.Reference.Context().RegistryStr()
	g := &guard{proxy: cfg.Proxy, clock: cfg.Clock, local: isLoopback((&url.URL{Host: registry}).Hostname())}
	for _, host := range []string{registry, cfg.TokenHost} {
		if host == "" {
			continue
		}
		g.own = append(g.own, addressOf(&url.URL{Scheme: "https", Host: host}))
		// A registry on loopback doesn't make its token server one: the credentials would cross the network as text.
		if cfg.Insecure || isLoopback((&url.URL{Host: host}).Hostname()) {
			at := addressOf(&url.URL{Scheme: "http", Host: host})
			g.own, g.plain = append(g.own, at), append(g.plain, at)
		}
	}
	if g.proxy == nil {
		g.proxy = http.ProxyFromEnvironment
	}
	if g.clock == nil {
		g.clock = clock.RealClock{}
	}
	c.guard = g
	return c
}

// CheckTokenHost returns why a text can't be a Config.TokenHost.
func CheckTokenHost(host string) error {
	u, err := url.Parse("https://" + host)
	if err != nil || u.Host != host || u.Hostname() == "" || strings.ContainsAny(host, "@/?#") {
		return errors.New("want a host, perhaps with a port")
	}
	return nil
}

// Open begins a reading, which lasts until Close, and at most as long as ctx.
func (c *Client) Open(ctx context.Context, login Login, config *tls.Config) *Reading {
	ctx, cancel := context.WithCancel(ctx)
	if login != c.login {
		c.login, c.transport = login, nil
	}
	c.guard.begin(ctx, config, login != Login{})
	return &Reading{client: c, ctx: ctx, cancel: cancel, secrets: fault.NewSecrets(login.Username, login.Password)}
}

// connect asks the registry how it authenticates, and gets a token if it wants one.
func (c *Client) connect(ctx context.Context) error {
	if c.transport != nil {
		return nil
	}
	auth := authn.Anonymous
	if c.login != (Login{}) {
		auth = authn.FromConfig(authn.AuthConfig{Username: c.login.Username, Password: c.login.Password})
	}
	repository := c.cfg.Reference.Context()
	t, err := transport.NewWithContext(ctx, repository.Registry, auth, transport.NewUserAgent(c.guard, "podconfigd"), []string{repository.Scope(transport.PullScope)})
	if err != nil {
		return err
	}
	c.transport = t
	return nil
}
