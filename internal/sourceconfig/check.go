package sourceconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/client/shard"
	"github.com/podstream/podstream/internal/sources/apiserver"
	httpsource "github.com/podstream/podstream/internal/sources/http"
)

// checker makes Sources of drafts, and collects the errors.
type checker struct {
	readFile func(path string) ([]byte, error)
	plan     *Plan
	every    map[Kind]time.Duration
	// detection is the API server's.
	detection apiserver.ChangeDetection
	// watchSecrets is the API server's.
	watchSecrets apiserver.WatchScope
	// shard and shards are the API server's.
	shard, shards int
	// mistakes are errors in the configuration, problems those in the files that it names.
	mistakes, problems []error
}

// source returns the draft as a Source, which is valid if there are no mistakes.
func (c *checker) source(d draft) (Source, []error) {
	c.mistakes, c.problems = nil, nil
	if d.short != "" {
		if problems := validation.IsDNS1123Label(d.short); len(problems) > 0 {
			c.wrong(d, "name", fmt.Sprintf("%q can't be a source's name: %s", d.short, problems[0]))
		}
	}
	s := Source{Name: d.name(), Kind: d.kind}
	switch d.kind {
	case File:
		c.file(d, &s)
	case HTTP:
		c.http(d, &s)
	case OCI:
		c.oci(d, &s)
	case Relay:
		c.relay(d, &s)
	case API:
		c.api(d, &s)
	case Applied:
		s.Location, s.Applied = "podctl apply", &AppliedSettings{}
	}
	s.Problem = errors.Join(c.problems...)
	return s, c.mistakes
}

func (c *checker) wrong(d draft, field, reason string) {
	c.mistakes = append(c.mistakes, d.at(field, reason))
}

// unusable records that a file can't be used.
func (c *checker) unusable(d draft, field, reason string) {
	c.problems = append(c.problems, d.at(field, reason))
}

func (c *checker) file(d draft, s *Source) {
	if d.path == "" {
		c.wrong(d, "path", "the path is empty")
	}
	s.Location = filepath.Clean(d.path)
	s.File = &FileSettings{Path: s.Location, CheckFrequency: c.every[File], Strict: c.plan.Strict}
}

func (c *checker) http(d draft, s *Source) {
	u, err := url.Parse(d.url)
	switch {
	case d.url == "":
		c.wrong(d, "url", "the URL is empty")
	case err != nil:
		// The parser's own text may quote a password.
		c.wrong(d, "url", "this isn't a URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Opaque != "":
		c.wrong(d, "url", "want http://host/path or https://host/path")
	case u.Scheme == "http" && d.tls != TLSFiles{}:
		c.wrong(d, "url", "certificates are of use only with https")
	}
	header, wrong := canonical(d)
	c.mistakes = append(c.mistakes, wrong...)
	c.tls(d)
	s.Location = httpsource.Location(d.url)
	s.HTTP = &HTTPSettings{URL: d.url, Headers: header, TLSFiles: d.tls, CheckFrequency: c.every[HTTP], Strict: c.plan.Strict}
}

func (c *checker) relay(d draft, s *Source) {
	isUnix := strings.HasPrefix(d.address, "unix://")
	// Each node has another number in its address, and all are checked alike.
	address, err := shard.Expand(d.address, "node")
	if err == nil {
		_, err = client.SplitEndpoints(address)
	}
	switch {
	case err != nil:
		c.wrong(d, "address", err.Error())
	case isUnix && d.tls != TLSFiles{}:
		c.wrong(d, "address", "certificates are of use only with tcp://host:port")
	case !isUnix && (d.tls.CertFile == "" || d.tls.KeyFile == ""):
		c.wrong(d, "address", "TCP takes mutual TLS: give a certificate file and its key file")
	}
	order := client.Order(d.addressOrder)
	switch order {
	case client.Random:
		order = ""
	case "", client.Listed:
	default:
		c.wrong(d, "addressOrder", fmt.Sprintf("%q is no order; want %s or %s", d.addressOrder, client.Random, client.Listed))
	}
	c.tls(d)
	s.Location = d.address
	s.Relay = &RelaySettings{Address: d.address, AddressOrder: order, TLSFiles: d.tls, Nodes: c.plan.Nodes}
}

// tls reads the certificates, as far as they are set.
func (c *checker) tls(d draft) {
	if path := d.tls.CAFile; path != "" {
		data, err := c.readFile(path)
		if err != nil {
			c.unusable(d, "caFile", err.Error())
		} else if !x509.NewCertPool().AppendCertsFromPEM(data) {
			c.unusable(d, "caFile", path+" holds no certificate in PEM")
		}
	}
	switch {
	case d.tls.CertFile == "" && d.tls.KeyFile == "":
	case d.tls.CertFile == "":
		c.wrong(d, "keyFile", "there is a key without a certificate")
	case d.tls.KeyFile == "":
		c.wrong(d, "certFile", "there is a certificate without a key")
	default:
		c.pair(d)
	}
}

func (c *checker) pair(d draft) {
	cert, err := c.readFile(d.tls.CertFile)
	if err != nil {
		c.unusable(d, "certFile", err.Error())
		return
	}
	key, err := c.readFile(d.tls.KeyFile)
	if err != nil {
		c.unusable(d, "keyFile", err.Error())
		return
	}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		c.unusable(d, "certFile", fmt.Sprintf("%s and %s: %v", d.tls.CertFile, d.tls.KeyFile, err))
	}
}
