package auth

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
)

const (
	// reread is how old what was read of the CA file may be when a client comes.
	reread = time.Second
	// maxCAFile is far more than any bundle has.
	maxCAFile = 4 << 20
)

// trust verifies client certificates by a file of CAs. A file that can't be used changes nothing: the last good one counts.
type trust struct {
	path  string
	clock clock.PassiveClock
	log   *slog.Logger

	mu     sync.Mutex
	readAt time.Time
	// data is what was read last that is good, and roots what it says; both are nil before the first.
	data  []byte
	roots *x509.CertPool
	// problem is what was logged last; empty if the file is well.
	problem string
}

func newTrust(path string, c clock.PassiveClock, log *slog.Logger) *trust {
	t := &trust{path: path, clock: c, log: log}
	t.pool()
	return t
}

// pool are the CAs as the file has them now, or had them when it was good last.
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
			t.log.Error("the file of client CAs can't be used; what was read before counts", "file", t.path, "error", err)
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
	// To open a pipe that nobody writes to would wait for a writer otherwise, and every client with it.
	f, err := os.OpenFile(t.path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxCAFile+1))
	switch {
	case err != nil:
		return err
	case len(data) > maxCAFile:
		return fmt.Errorf("it is larger than %d bytes", maxCAFile)
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

// parse reads all certificates, and takes none if one is bad.
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

// user is whose certificate the chain begins with: its common name and its organizations.
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
	return &User{Name: leaf.Subject.CommonName, Groups: leaf.Subject.Organization}, nil
}
