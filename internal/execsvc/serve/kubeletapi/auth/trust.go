package auth

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/openfile"
)

const (
	// reread is the age at which the CA file is read again when a client connects.
	reread = time.Second
	// maxCAFile is far above the size of any bundle.
	maxCAFile = 4 << 20
)

// trust verifies client certificates by a file of CAs. While the file is unusable the last good content is used.
type trust struct {
	path  string
	clock clock.PassiveClock
	log   *slog.Logger

	mu     sync.Mutex
	readAt time.Time
	// data is the last good content, and roots its CAs; both are nil before the first.
	data  []byte
	roots *x509.CertPool
	// problem is the last logged failure; empty if the file is good.
	problem string
}

func newTrust(path string, c clock.PassiveClock, log *slog.Logger) *trust {
	t := &trust{path: path, clock: c, log: log}
	t.pool()
	return t
}

// pool returns the CAs of the file, or of its last good content.
func (t *trust) pool() *x509.CertPool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	if !t.readAt.IsZero() && now.Sub(t.readAt) < reread && !now.Before(t.readAt) {
		return t.roots
	}
	t.readAt = now
	if err := t.read(); err != nil {
		if t.problem != err.Error() {
			t.problem = err.Error()
			t.log.Error("the file of client CAs can't be used; its last good content is used", "file", t.path, "error", err)
		}
		return t.roots
	}
	if t.problem != "" {
		t.problem = ""
		t.log.Info("the file of client CAs is in use", "file", t.path)
	}
	return t.roots
}

func (t *trust) read() error {
	// A file that blocks its reader, such as a pipe without a writer, would block every client.
	data, err := openfile.Read(context.Background(), t.path, maxCAFile)
	var size *openfile.SizeError
	switch {
	case errors.As(err, &size):
		return fmt.Errorf("it is larger than %d bytes", maxCAFile)
	case err != nil:
		return err
	case t.roots != nil && bytes.Equal(data, t.data):
		return nil
	}
	roots, err := parse(data)
	if err != nil {
		return err
	}
	t.data, t.roots = data, roots
	return nil
}

// parse returns all certificates, or an error if one is invalid.
func parse(data []byte) (*x509.CertPool, error) {
	roots, found := x509.NewCertPool(), false
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			break
		}
		data = rest
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		roots.AddCert(cert)
		found = true
	}
	switch {
	case bytes.Contains(data, []byte("-----BEGIN")):
		return nil, errors.New("it ends, or is damaged, within a certificate")
	case !found:
		return nil, errors.New("it has no certificates")
	}
	return roots, nil
}

// user returns the user of the chain's first certificate: its common name and its organizations.
func (t *trust) user(chain []*x509.Certificate) (*User, error) {
	roots := t.pool()
	if roots == nil {
		return nil, errors.New("no client CA is known yet")
	}
	intermediates := x509.NewCertPool()
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	leaf := chain[0]
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, CurrentTime: t.clock.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	switch {
	case err != nil:
		return nil, err
	case leaf.Subject.CommonName == "":
		return nil, errors.New("it has no common name")
	}
	return &User{Name: leaf.Subject.CommonName, Groups: leaf.Subject.Organization, Certificate: true}, nil
}
