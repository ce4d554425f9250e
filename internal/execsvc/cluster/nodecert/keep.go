package nodecert

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"

	"github.com/podstream/podstream/internal/execsvc/cluster/apiclient"
)

// errExpired: without a bootstrap kubeconfig no other certificate can be requested.
var errExpired = errors.New("it has expired, and there is no bootstrap kubeconfig")

// Run requests and renews the certificate, as configured, until ctx ends.
func (c *Client) Run(ctx context.Context) {
	defer func() {
		if r := c.look(lookAtMost); r != nil {
			r.idle.CloseIdleConnections()
		}
	}()
	for {
		pause := lookEvery
		if step := c.due(time.Now()); step == nil {
			c.asking.over()
			c.backoff.reset()
		} else if err := step(ctx); err == nil {
			continue
		} else if ctx.Err() == nil {
			c.metrics.failures.Inc()
			c.asking.is(whatOf(err), err)
			pause = c.backoff.after(err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// due returns the next action; nil means none.
func (c *Client) due(now time.Time) func(context.Context) error {
	r := c.look(0)
	switch {
	case !usable(r, now) && c.cfg.BootstrapKubeconfig != "":
		return c.bootstrap
	case r == nil || r.cert == nil:
	case expired(r.cert, now):
		c.way.is("the client certificate can't be renewed", errExpired)
	case c.cfg.Rotate && c.aged(r, now):
		return c.renew
	}
	return nil
}

// aged reports whether a route's certificate must be renewed, because of its age or because it names another node.
func (c *Client) aged(r *route, now time.Time) bool {
	return now.After(r.renew) || !satisfies(r.cert, c.request())
}

// usable reports whether the route has credentials that may be valid.
func usable(r *route, now time.Time) bool {
	return r != nil && r.credentials && (r.cert == nil || !expired(r.cert, now))
}

func (c *Client) request() *x509.CertificateRequest {
	return &x509.CertificateRequest{Subject: subject(c.cfg.Node)}
}

// bootstrap gets a first certificate, and writes the kubeconfig.
func (c *Client) bootstrap(ctx context.Context) error {
	said, _, err := readKubeconfig(c.cfg.BootstrapKubeconfig)
	if err != nil {
		return fmt.Errorf("bootstrap kubeconfig: %w", err)
	}
	way, err := newRoute(said.config, said.cert, c.cfg.Dial)
	if err != nil {
		return fmt.Errorf("bootstrap kubeconfig: %w", err)
	}
	defer way.retire()
	client, err := apiclient.New(&rest.Config{Host: placeholder, Transport: way, UserAgent: c.cfg.UserAgent})
	if err != nil {
		return fmt.Errorf("client of the bootstrap kubeconfig: %w", err)
	}
	if err := c.issuer.issue(ctx, client, c.request()); err != nil {
		return err
	}
	// A good kubeconfig that was written meanwhile takes precedence.
	if !usable(c.look(0), time.Now()) {
		if err := writeKubeconfig(c.cfg.Kubeconfig, said.cluster, c.issuer.currentPath()); err != nil {
			return err
		}
		c.cfg.Logger.Info("wrote the kubeconfig", "path", c.cfg.Kubeconfig)
	}
	if !usable(c.look(0), time.Now()) {
		return errors.New("the kubeconfig that was just written can't be used")
	}
	c.issuer.drop()
	return nil
}

// renew gets the next certificate with the current one.
func (c *Client) renew(ctx context.Context) error {
	before := c.look(0)
	if before.cert == nil {
		return nil // It changed just now.
	}
	c.issuer.dropUsed(before.cert)
	client, err := apiclient.New(c.Config())
	if err != nil {
		return fmt.Errorf("client for certificates: %w", err)
	}
	if err := c.issuer.issue(ctx, client, c.request()); err != nil {
		return err
	}
	c.issuer.drop()
	if err := nameCertificate(c.cfg.Kubeconfig, c.issuer.currentPath()); err != nil {
		c.cfg.Logger.Warn("the kubeconfig couldn't be changed to the renewed certificate, which only podexecd uses", "error", err)
	}
	if after := c.look(0); after.cert != nil && c.aged(after, time.Now()) {
		return errors.New("the new certificate isn't valid longer than the one before")
	}
	return nil
}
