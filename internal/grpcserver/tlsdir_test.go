package grpcserver_test

import (
	"path/filepath"
	"testing"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/certtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// tlsDir is the files of a server that trusts its own CA for clients.
type tlsDir struct {
	t   *testing.T
	ca  *certtest.CA
	dir string
}

func newTLSDir(t *testing.T, access string) *tlsDir {
	t.Helper()
	d := &tlsDir{t, certtest.NewCA(t, "ca"), t.TempDir()}
	cert, key := d.ca.Issue(certtest.Request{Server: true})
	d.write("cert", cert)
	d.write("key", key)
	d.write("ca", d.ca.PEM)
	d.write("access", []byte(access))
	return d
}

func (d *tlsDir) write(name string, data []byte) {
	d.t.Helper()
	certtest.WriteFile(d.t, filepath.Join(d.dir, name), data)
}

func (d *tlsDir) access(clk *clocktesting.FakeClock) *access.Access {
	d.t.Helper()
	cfg := access.Config{
		CertFile: filepath.Join(d.dir, "cert"), KeyFile: filepath.Join(d.dir, "key"), ClientCAFile: filepath.Join(d.dir, "ca"),
		File: filepath.Join(d.dir, "access"),
		MinimumRole: func(method string) access.Role {
			if method == podconfigv1.PodConfigService_GetPod_FullMethodName {
				return access.Consumer
			}
			return access.Inspector
		},
	}
	if clk != nil {
		cfg.Clock = clk
	}
	a, err := access.New(cfg)
	if err != nil {
		d.t.Fatal(err)
	}
	return a
}
