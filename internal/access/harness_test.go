package access

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/peer"

	"github.com/podstream/podstream/internal/certtest"
)

func open(t *testing.T, cfg Config, log *strings.Builder) *Access {
	t.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// tlsFiles are the files of a server that trusts ca for clients.
type tlsFiles struct{ dir string }

func (f tlsFiles) config() Config {
	return Config{
		CertFile: filepath.Join(f.dir, "cert"), KeyFile: filepath.Join(f.dir, "key"), ClientCAFile: filepath.Join(f.dir, "ca"),
		File: filepath.Join(f.dir, "access"),
	}
}

func newTLSFiles(t *testing.T, ca *certtest.CA, access string) tlsFiles {
	t.Helper()
	f := tlsFiles{t.TempDir()}
	cert, key := ca.Issue(certtest.Request{Server: true})
	for name, data := range map[string][]byte{"cert": cert, "key": key, "ca": ca.PEM, "access": []byte(access)} {
		f.write(t, name, data)
	}
	return f
}

func (f tlsFiles) write(t *testing.T, name string, data []byte) {
	t.Helper()
	certtest.WriteFile(t, filepath.Join(f.dir, name), data)
}

// uid is the AuthInfo of a local user.
func uid(a *Access, id uint32) *AuthInfo {
	i := &AuthInfo{Peer: uidIdentity(id), Unix: &unix.Ucred{Uid: id}}
	a.recordRules(i)
	return i
}

// client is the AuthInfo of a TLS client with a certificate of ca.
func client(t *testing.T, a *Access, ca *certtest.CA, r certtest.Request) *AuthInfo {
	t.Helper()
	text, _ := ca.Issue(r)
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	i := &AuthInfo{Peer: "192.0.2.1", Certificates: []*x509.Certificate{cert}, expires: cert.NotAfter}
	v, err := a.trust.Load().verify(i.Certificates, a.cfg.Clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	i.verified.Store(v)
	a.recordRules(i)
	return i
}

func authorize(a *Access, i *AuthInfo, method string) (Caller, error) {
	ctx, err := a.Authorize(peer.NewContext(context.Background(), &peer.Peer{AuthInfo: i}), method)
	c, _ := FromContext(ctx)
	return c, err
}
